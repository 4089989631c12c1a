"""Claim: a file becomes a regular table of numbers with the columns meant; what will not do is named, with the remedy."""

import os

import numpy as np
import pandas as pd
import pytest

from pesn.series.table.numerals import DataError
from pesn.series.table.reading import read, read_future


@pytest.fixture
def file(tmp_path):
    def write(text, name="data.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return write


def days(*values, first="2024-01-01", head="day,x"):
    dates = pd.date_range(first, periods=len(values)).strftime("%Y-%m-%d")
    return head + "\n" + "\n".join(f"{day},{value}" for day, value in zip(dates, values, strict=True)) + "\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings_are_recognized(file, encoding):
    table = read(file("größe;x\n1;2\n2;4\n", encoding=encoding))
    assert table.targets == ["größe", "x"]


MONTHS = pd.date_range("1949-01-01", periods=48, freq="MS")
PASSENGERS = [112 + 2 * k + 7 * k % 31 for k in range(48)]


def airline(**options):
    """A table as Box and Jenkins' passengers of airlines."""
    return pd.DataFrame({"Date": MONTHS, "Passengers": PASSENGERS}).to_csv(**options)


def check_airline(table):
    assert (table.freq, table.targets, table.y.ravel().tolist()) == ("MS", ["Passengers"], PASSENGERS)
    assert table.frame.index.strftime("%Y-%m").tolist() == MONTHS.strftime("%Y-%m").tolist()


def test_row_names_of_pandas_and_of_r_do_not_hide_the_dates(file):
    check_airline(read(file(airline())))
    # the row names that r writes do not hide the dates
    lines = airline(index=False).splitlines()
    rows = [f'"{i}",{line}' for i, line in enumerate(lines[1:], 1)]
    check_airline(read(file("\n".join(['"",' + lines[0], *rows]))))  # write.csv
    check_airline(read(file("\n".join([lines[0], *rows]))))  # write.table: no name above them


@pytest.mark.parametrize("titles", [
    "Monthly airline passengers;\nsource: Box & Jenkins;\n\n", "Monthly airline passengers\nsource: Box & Jenkins\n\n",
    "Monthly airline passengers\n\nsource: Box & Jenkins\n",
])  # fmt: skip
@pytest.mark.parametrize("end", ["", "Total;7404\n", "\nTotal;7404\nSource: Box & Jenkins 1976\n"])
def test_lines_above_and_below_the_table_are_left_out_and_said(file, titles, end):
    table = read(file(titles + airline(index=False, sep=";") + end))
    check_airline(table)
    assert table.notes[0] == "2 title lines above the header left out: 'Monthly airline passengers', 'source: Box & Jenkins'"
    assert [note.partition(":")[0] for note in table.notes[1:]] == {0: [], 1: ["1 row below the table left out"]}.get(
        end.count("\n"), ["2 rows below the table left out"]
    )


def test_the_future_has_the_decimal_mark_of_the_table(file):
    table = read(file("day;x;u\n2024-01-01;1;0,5\n2024-01-02;2;6\n"), targets=["x"], inputs=["u"])
    assert read_future(file("day;u\n2024-01-03;7,125\n", "later.csv"), table, 1).tolist() == [[7.125]]


def test_duplicate_times_are_refused_or_merged(file):
    text = days(1, 2, 3, 4, 5) + "2024-01-02,8\n2024-01-02,\n"
    with pytest.raises(DataError, match=r"has 2024-01-02 3 times, in lines 3, 7, 8; .*--duplicates mean or --duplicates last"):
        read(file(text))
    merged = read(file(text), duplicates="mean")
    assert merged.y.ravel().tolist() == [1.0, 5.0, 3.0, 4.0, 5.0]
    assert merged.notes == ["2 rows with the time of another row, the first at 2024-01-02: merged into their mean"]
    last = read(file(days(1, 2, 3) + "2024-01-02,8\n"), duplicates="last")
    assert last.y.ravel().tolist() == [1.0, 8.0, 3.0]
    assert last.notes == ["1 row with the time of another row, the first at 2024-01-02: merged into the last of them"]


@pytest.mark.parametrize(("first", "missing", "twice"), [("2024-03-30", 1, 0), ("2024-10-26", 0, 1)])
def test_daylight_saving_time_in_local_times(file, first, missing, twice):
    """An hour that is left out in spring is a gap, one that comes twice in October is merged."""
    hours = pd.date_range(first, periods=60, freq="h", tz="Europe/Berlin").strftime("%Y-%m-%d %H:%M")
    table = read(file("time,x\n" + "".join(f"{hour},{i % 7}\n" for i, hour in enumerate(hours))), duplicates="mean")
    assert (table.freq, len(table.frame), int(np.isnan(table.y).sum())) == ("h", 60 + missing - twice, missing)
    said = ["1 missing hour left as a gap"] * missing
    said += ["1 row with the time of another row, the first at 2024-10-27 02:00:00: merged into their mean"] * twice
    assert table.notes == said


def test_unsorted_and_missing_rows_are_noted(file):
    hours = pd.date_range("2024-03-30", periods=30, freq="h", tz="Europe/Berlin").strftime("%Y-%m-%dT%H:%M:%S%z")
    rows = [f"{hour},{i}" for i, hour in enumerate(hours)]
    table = read(file("\n".join(["time,x", *rows[20:], *rows[:20]])))
    assert (table.freq, table.y.ravel().tolist()) == ("h", [float(i) for i in range(30)])
    assert table.warnings == ["rows were not in order of 'time' (first in line 12); they were sorted"]
    # missing rows and ends are noted
    table = read(file("day,x\n2024-01-01,\n2024-01-02,1\n2024-01-03,2\n2024-01-06,3\n2024-01-07,\n"))
    np.testing.assert_array_equal(table.y.ravel(), [1.0, 2.0, np.nan, np.nan, 3.0])
    assert "2 missing days left as gaps" in table.notes
    assert "1 row at the start without a number of 'x' left out" in table.notes
    assert table.warnings == ["the last row of the file has no number of 'x': the forecast begins after 2024-01-06"]


def test_pandas_own_csv(tmp_path):
    frame = pd.DataFrame({"x": np.arange(5.0)}, index=pd.date_range("2020-01-31", periods=5, freq="ME"))
    frame.to_csv(tmp_path / "a.csv")
    frame.to_parquet(tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        table = read(tmp_path / name)
        assert (table.freq, table.y.ravel().tolist()) == ("ME", [0.0, 1.0, 2.0, 3.0, 4.0])


SYMBOLS = "symbol,day,x\n" + "".join(f"{name},2024-01-{k:02d},{k % 5}\n" for name in ("A", "B") for k in range(1, 20))
RUNS = "run,t,x\n" + "".join(f"{run},{0.1 * k:.1f},{k + run}\n" for run in (0, 1) for k in range(30))
MEASURED = "day,x\n" + "".join(f"2024-01-0{1 + i // 4},{i}.5\n" for i in range(8))  # no id among them
MIXED = ("0.101", "10.4%", "10.2%"), ("$3.5", "€4.5", "$4"), ("10 %", "11 %", "12")


@pytest.mark.parametrize(("text", "says"), [
    ("", "is empty"), ("a,b\n", "has no rows below its header"), ("a\n1\n", "has 1 row"),
    ("a,b\n1,2\n3\n4,5,6\n", "Expected 2 fields in line 4, saw 3"), ("a,a\n1,2\n3,4\n", "two columns named 'a'"),
    (days(1, 2, "oops", 4), "column 'x' has 'oops' in line 4, which is not a number"),
    (days(1, 2) + "2024-01-02,3\n", r"column 'day' has 2024-01-02 2 times, in lines 3, 4; keep one row .*--id"),
    (days(5, 5, 5), "column 'x' is constant, 5 in every row"), (days("", "", ""), "column 'x' has no numbers at all"),
    ("name,town\nA,B\nC,D\n", "no column of numbers to forecast"),
    ("day,name\n2024-01-01,a\n2024-01-02,b\n", "no column of numbers to forecast; there are 'name' with 'a'"),
    ("day,x\nsoon,1\nlater,2\n", "column 'day' has 'soon' in line 2, which is not a time"),
    ("Datum,x\n31.12.2000,1\n,2\n31.10.2000,3\n30.09.2000,5\n", "column 'Datum' has no time in line 3; give each row one"),
    ("PK\0\0", "is not a text file"),
    ("Title\n\n" + days(1, 2, "oops", 4), "column 'x' has 'oops' in line 6, which is not a number"),
    ("x,y\n1,2\n3,4\n-Infinity,5\n6,7\n", "column 'x' has '-Infinity' in line 4, which is not a number"),
    ("x\n13.072\n471\n5.661\n", r"'13\.072' in line 2, which may be a thousand or a fraction"),
    (SYMBOLS, "column 'symbol' tells many series apart: --id 'symbol' forecasts each"),
    (MEASURED, "where the file has many series, --id names the column"),
    (RUNS, r"column 't' begins again at row 31 of the table: it holds several runs"),
    *((days(*cells), "column 'x' has .* in line .* and .* in line .*; write all numbers in one unit") for cells in MIXED),
])  # fmt: skip
def test_unusable_files_are_refused_with_a_reason(file, text, says):
    with pytest.raises(DataError, match=says):
        read(file(text))


def test_wrong_arguments_of_read_are_named(file, tmp_path):
    path = file(days(1, 2, 3))
    for options, says in (
        ({"targets": ["z"]}, "--target must be a column of the file, one of 'day', 'x'; got 'z'"),
        ({"inputs": ["z"]}, "--inputs must be"),
        ({"time": "z"}, "--time must be"),
        ({"targets": ["x"], "inputs": ["x"]}, "must be different columns, got 'x' twice"),
    ):
        with pytest.raises(ValueError, match=says) as caught:
            read(path, **options)
        assert not isinstance(caught.value, DataError)
    with pytest.raises(ValueError, match="--freq must come with a column of times, got 'D', and the file has none"):
        read(file("x\n1\n2\n4\n", "timeless.csv"), freq="D")
    for name in ("nothing.csv", "book.xlsx"):
        with pytest.raises(ValueError, match=r"FILE must be a \.csv or \.parquet file"):
            read(tmp_path / name)
    wide = file("\n".join([",".join(f"c{i}" for i in range(30)), *[",".join(map(str, range(k, k + 30))) for k in range(3)]]))
    with pytest.raises(ValueError, match="20 at most; the file has 30"):
        read(wide)


def test_constant_columns_are_left_out(file):
    table = read(file("day,x,u\n2024-01-01,1,5\n2024-01-02,2,5\n"), inputs=["u"])
    assert (table.inputs, table.warnings) == ([], ["input 'u' is constant, 5 in every row; it is left out"])
    # a constant column that nobody named is left out
    path = file("day,x,run\n2024-01-01,1,0\n2024-01-02,2,0\n")
    table = read(path)
    assert (table.targets, table.warnings) == (["x"], ["column 'run' is constant, 0 in every row; it is left out"])
    with pytest.raises(DataError, match="column 'run' is constant"):
        read(path, targets=["x", "run"])


def test_the_future_must_go_on(file):
    table = read(file("day,x,u\n2024-01-01,1,5\n2024-01-02,2,6\n"), inputs=["u"])
    good = file("day,u\n2024-01-02,6\n2024-01-03,7\n2024-01-04,8\n", "good.csv")  # a row that is known already is passed over
    assert read_future(good, table, None).tolist() == [[7.0], [8.0]]
    assert read_future(good, table, 1).tolist() == [[7.0]]
    for name, text, says in (
        ("late.csv", "day,u\n2024-01-04,7\n", "has no row for 2024-01-03: the series ends at 2024-01-02"),
        ("other.csv", "day,v\n2024-01-03,7\n", "has no column 'u'"),
        ("timeless.csv", "u\n7\n", "has no column of times"),
    ):
        with pytest.raises(DataError, match=says):
            read_future(file(text, name), table, 1)
    with pytest.raises(DataError, match="has no row for 2024-01-05"):
        read_future(good, table, 3)
    counted = read(file("x,u\n1,5\n2,6\n", "counted.csv"), targets=["x"], inputs=["u"])
    with pytest.raises(DataError, match="has 1 row, and 2 steps are to be forecast"):
        read_future(file("u\n7\n", "one.csv"), counted, 2)


def test_a_table_of_many_columns(file):
    """Lines longer than any that the csv module takes, 131,072 characters."""
    names = [f"{'column' * 32}_{i}" for i in range(700)]
    values = np.random.default_rng(0).normal(size=(3, len(names)))
    lines = [["day", *names], *([f"2024-01-0{k + 1}", *(f"{value:.195f}" for value in row)] for k, row in enumerate(values))]
    assert min(sum(map(len, line)) for line in lines) > 131_072
    path = file("\n".join(";".join(line) for line in lines))
    table = read(path, targets=[names[-1]], inputs=[names[7]])
    np.testing.assert_array_equal(table.y[:, 0], values[:, -1])
    np.testing.assert_array_equal(table.x[:, 0], values[:, 7])
    assert table.freq == "D"
    with pytest.raises(ValueError, match="--target must name the columns to forecast, 20 at most; the file has 700 of numbers"):
        read(path)


def test_separators_inside_quotes_and_many_columns(file):
    text = 'day,"sales; net, of ""x""",note\n2024-01-01,1.5,"a;b\n;c;d"\n2024-01-02,2.5, "e;;f"\n2024-01-03,3.5,g;h\n'
    table = read(file(text))
    assert (table.targets, table.y.ravel().tolist()) == (['sales; net, of "x"'], [1.5, 2.5, 3.5])
    assert read(file("a\tb\n1\t2\n3\t4\n")).targets == ["a", "b"]
    # names are compared in one pass: Columns without a name, or all with the same one, are no more work than others.
    many = 2_000
    assert read(file("x" + "," * many + "\n1" + "," * many + "\n2" + "," * many)).targets == ["x"]
    with pytest.raises(DataError, match="columns without a name"):
        read(file("x" + "," * many + "\n" + "1," * many + "1\n" + "2," * many + "2\n"))
    with pytest.raises(DataError, match="two columns named 'x'"):
        read(file("x," * many + "x\n" + "1," * many + "1\n"))


def test_one_huge_cell(file):
    huge = "z" * 300_000
    table = read(file(f"day,x,note\n2024-01-01,1,a\n2024-01-02,2,{huge}\n"))
    assert (table.targets, table.notes) == (["x"], ["left out, as it is not numbers: note"])
    for text, says in (
        (f"day,{huge}\n2024-01-01,1\n2024-01-02,2\n", "the name of column 2 has 300,000 characters, 200 at most"),
        (huge, "the name of column 1 has"),
        (f"day,x\n2024-01-01,1\n2024-01-02,2\n2024-01-03,3\n2024-01-04,{huge}\n", "in line 5, which is not a number"),
        (f"day,x\n2024-01-01,1\n{huge},2\n2024-01-03,3\n", "which is not a time"),
        (f'day,"x\n{huge}', "closed|EOF inside string"),
    ):
        with pytest.raises(DataError, match=says) as caught:
            read(file(text))
        assert len(str(caught.value)) < 500


@pytest.mark.skipif(os.name != "posix", reason="devices and pipes as POSIX has them")
def test_what_is_no_file_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    for name, what in (("pipe.csv", "a pipe; save"), ("zero.csv", "a device; save"), ("none.csv", "nothing there")):
        with pytest.raises(ValueError, match=rf"FILE must be a \.csv or \.parquet file, got '.*', {what}"):
            read(tmp_path / name)


def test_a_file_of_terabytes_is_not_read(tmp_path):
    with open(tmp_path / "sparse.csv", "wb") as large:
        large.truncate(2 * 10**12)
    with pytest.raises(DataError, match=r"sparse\.csv has 2000\.0 GB, 1 at most"):
        read(tmp_path / "sparse.csv")


@pytest.mark.parametrize("seed", range(5, 15))
def test_binary_files_are_refused(tmp_path, seed):
    """In whatever they begin with; an error of the table, never another."""
    rng = np.random.default_rng(seed)
    begin = (b"", b"\xff\xfe", b"a,b\n1,2\n", b"\x1f\x8b\x08", b'"')[seed % 5]
    few = np.array([10, 34, 44, 59, 49, 200, 9, 13, 28, 255], np.uint8)  # line ends, quotes, separators: no zero among them
    data = rng.integers(0, 256, 20_000).astype(np.uint8) if seed < 10 else rng.choice(few, 5_000)
    (tmp_path / "a.csv").write_bytes(begin + data.tobytes())
    with pytest.raises(DataError) as caught:
        read(tmp_path / "a.csv")
    assert len(str(caught.value)) < 1000


EPOCH = "ts,v\n" + "".join(f"{1_700_000_000 + 3600 * k},{k % 7}\n" for k in range(30))
COMMAS = "Report\nTable 1\n\na\tb\tc\n" + "".join(f"2,{i}\t3,{i % 4}\t-4,{i % 3}\n" for i in range(9))


@pytest.mark.parametrize(("text", "targets", "freq", "first", "said"), [
    ("Datum;x;y\n01.01.2024;1,5;1.000,25\n02.01.2024;2,5;7\n", ["x", "y"], "D", [1.5, 1000.25], "decimal comma"),
    ('a\n"1,234"\n"2,345"\n', ["a"], None, [1234.0], ""), ("1.5\n2.5\n3.5\n", ["column 1"], None, [1.5], "no names"),
    ("x,u\n1,\n2,5\n3,6\n4,7\n", ["x", "u"], None, [1.0, np.nan], ""),  # no title
    ("year,quarter,gdp\n1999.0,3.0,1\n1999.0,4.0,2\n2000.0,1.0,4\n", ["gdp"], "QS-JAN", [1.0], ""),
    (EPOCH, ["v"], "h", [0.0], ""),
    ("0,420\t-11,26\n-0,286\t-6,07\n0,103\t0,79\n", ["column 1", "column 2"], None, [0.42, -11.26], "decimal comma"),
    (COMMAS, ["a", "b", "c"], None, [2.0, 3.0, -4.0], "2 title lines"),
    ("x\n1,5\n2,7\n3,6\n", ["x"], None, [5.0], "the first column has no name, as the first line has one cell less"),
    ("place,0.1,0.9\nnorth,1.5,2\nnorth,1.7,3\n", ["0.1", "0.9"], None, [1.5, 2.0], "although '0.1' may be a value"),
    ("day,x\n2024-01-02,2\n2024-01-01,1\n2024-01-03,3\n", ["x"], "D", [1.0], "(first in line 3); they were sorted"),
])  # fmt: skip
def test_layouts_of_files_are_recognized(file, text, targets, freq, first, said):
    table = read(file(text))
    assert (table.targets, table.freq) == (targets, freq)
    np.testing.assert_array_equal(table.y[0], first)
    assert any(said in note for note in (*table.notes, *table.warnings, ""))


@pytest.mark.parametrize("title", ["", "Report\n"])
@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize(
    ("cells", "numbers"),
    [(["0,5", "1,6", "2,7", "3,5"], [0.5, 1.6, 2.7, 3.5]), (["9,597.25", "597.5", "1,000,000.5"], [9597.25, 597.5, 1000000.5])],
)
def test_commas_of_a_single_column_separate_nothing(file, title, quote, cells, numbers):
    table = read(file(title + "".join(f"{quote}{cell}{quote}\n" for cell in ["x", *cells])))
    assert (table.targets, table.y.ravel().tolist()) == (["x"], numbers)
    assert any("decimal" in note for note in table.notes)


@pytest.mark.parametrize(("text", "numbers"), [
    ("-76315,0|2|\n1,5|3|\n1,7|4|\n", [[-76315.0, 2.0], [1.5, 3.0], [1.7, 4.0]]),
    ("1,5\t$295\n1,7\t$300\n", [[1.5, 295.0], [1.7, 300.0]]), ("1.5,12 %\n1.7,13 %\n", [[1.5, 12.0], [1.7, 13.0]]),
    ("1.5,NA\n1.7,3\n1.8,4\n", [[1.5, np.nan], [1.7, 3.0], [1.8, 4.0]]),
    ("NA;1,5\n3;1,7\n4;1,8\n", [[np.nan, 1.5], [3.0, 1.7], [4.0, 1.8]]),
    ("2024-01-01,north,1.5\n2024-01-02,south,1.7\n", [[1.5], [1.7]]),
])  # fmt: skip
def test_a_first_row_of_values_is_no_header(file, text, numbers):
    np.testing.assert_array_equal(read(file(text)).y, numbers)


@pytest.mark.parametrize("head", ["CO2,2019", "day,0.1"])
def test_a_title_above_names_that_are_numbers_is_no_name(file, head):
    table = read(file(f"Table 1\n{head}\n" + "".join(f"{i * i % 7},{i % 3}\n" for i in range(9))))
    assert table.targets == head.split(",")


@pytest.mark.parametrize("name", ["month", "period", "yearmonth", "YYYYMM", "ds"])
def test_months_may_be_numbers_of_six_digits(file, name):
    for months in (12, 20):  # one year alone would do as a counter, whose next number is 202013
        index = pd.date_range("2020-01-01", periods=months, freq="MS")
        rows = "".join(f"{date:%Y%m},{i * 7 % 5}.5\n" for i, date in enumerate(index))
        table = read(file(f"{name},x\n{rows}"))
        assert (table.time, table.targets, table.freq) == (name, ["x"], "MS")
        assert table.frame.index.tolist() == index.tolist()


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_separator_below_the_header_alone_moves_no_name(file, separator):
    text = days(5, 3, 4, 6, head="day,x,z").replace("\n", ",2.5\n").replace("z,2.5", "z").replace("2.5\n", "2.5,\n")
    table = read(file(text.replace("4,2.5", "4,3.5").replace(",", separator)))
    assert (table.time, table.targets, table.y[:, 0].tolist()) == ("day", ["x", "z"], [5.0, 3.0, 4.0, 6.0])
    assert table.notes[0] == "the separator at the end of every row but the first line left out"


@pytest.mark.parametrize("cells", [("0", "10.5%", ""), ("$3.5", "4.5", "NA"), ("10 %", "11 %", "0.0")])
def test_zeros_and_some_cells_need_no_sign_of_their_unit(file, cells):
    numbers = [float(cell.strip("$% ")) for cell in cells if cell not in ("", "NA")]
    table = read(file(days(*cells, head="day,x")))
    assert table.y.ravel().tolist() == numbers
