"""What every package needs and none is about: checks of arguments, files written whole, progress, compilation."""
