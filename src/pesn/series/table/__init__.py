"""Tables of files, checked: cells, numbers, dates, rows on a regular grid."""
