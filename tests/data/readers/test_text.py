"""The text reader: exactly what numpy.loadtxt reads, whatever the header, and a place for every mistake."""

import io

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brainroam.data.readers.text import read_text
from brainroam.errors import ReaderError

decimal = st.builds(
    lambda sign, whole, decimals: f"{sign}{whole}.{decimals}",
    st.sampled_from(["", "-"]),
    st.from_regex(r"[0-9]{0,8}", fullmatch=True),
    st.from_regex(r"[0-9]{1,7}", fullmatch=True),
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(2, 4).flatmap(lambda n: st.lists(st.lists(decimal, min_size=n, max_size=n), min_size=2, max_size=6)))
def test_decimals_are_read_bit_for_bit_as_loadtxt_does(tmp_path, rows):
    text = "\n".join("\t".join(row) for row in rows) + "\n"
    expected = np.loadtxt(io.StringIO(text), delimiter="\t", ndmin=2)
    path = tmp_path / "a.tsv"
    path.write_text("x\n".replace("x", "\t".join(f"r{k}" for k in range(len(rows[0])))) + text)
    assert read_text(path).values.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "text",
    [
        "1.5,2.5\n-3.25,4.125\n",
        "1.5 2.5\n-3.25 4.125",
        "  1.5   2.5\n\n -3.25  4.125 \n",
        "1.5;2.5\r\n-3.25;4.125\r\n",
        "1.50e0,25e-1\n-3.25,4.125\n",
        "#a,#b\n1.5,2.5\n-3.25,4.125\n",
        "a,b\n1.5,2.5\n-3.25,4.125\n",
        "# made by somebody\na,b\n1.5,2.5\n-3.25,4.125\n",
        "0,1\n1.5,2.5\n-3.25,4.125\n",
        ",0,1\n0,1.5,2.5\n1,-3.25,4.125\n",
        "1.5,2.5,\n-3.25,4.125,\n",
        "1,5;2,5\n-3,25;4,125\n",
        "a\tb\r\n1,5\t2,5\r\n-3,25\t4,125\r\n",
        '"a" "b"\n"1" 1.5 2.5\n"2" -3.25 4.125\n',
        "a;b\n1.5;2.5\n;\n-3.25;4.125\n;\n",
        "\ufeffa\tb\n1.5\t2.5\n-3.25\t4.125\n",
        "File\tSub-brick\tMean_a \tMean_b \nx.nii\t0[?]\t1.5\t2.5\nx.nii\t1[?]\t-3.25\t4.125\n",
    ],
)
def test_delimiters_headers_and_index_columns_are_recognised(tmp_path, write, text):
    series = read_text(write(tmp_path / "a.txt", text))
    np.testing.assert_array_equal(series.values, [[1.5, 2.5], [-3.25, 4.125]])
    assert series.names == (("a", "b") if "a" in text.replace("made by somebody", "") else None)


def test_a_header_of_region_codes_is_no_volume(tmp_path, write_rows, signal):
    codes = range(2001, 2013)
    series = read_text(write_rows(tmp_path / "a.csv", signal(0, 6, 12), ",".join(map(str, codes)), ","))
    np.testing.assert_array_equal(series.values, signal(0, 6, 12))
    assert series.names == tuple(map(str, codes))


def test_integers_that_go_up_in_a_few_columns_are_data(tmp_path, write):
    assert read_text(write(tmp_path / "a.csv", "3,7\n1,2\n")).values.tolist() == [[3, 7], [1, 2]]


@pytest.mark.parametrize(
    ("header", "row", "mark"),
    [("r,a,b,c", "{0},", ","), ("\ta\tb\tc", "{0}\t", "\t"), (None, "", ","), (None, "", "\t")],
)
def test_a_region_that_a_matrix_lacks_stays_in_its_place(tmp_path, write, header, row, mark):
    edges = [["1", "", "0.5"], ["", "", ""], ["0.5", "", "1"]]
    lines = [row.format(name) + mark.join(cells) for name, cells in zip("abc", edges, strict=True)]
    text = "\n".join([*([] if header is None else [header]), *lines]) + "\n"
    np.testing.assert_array_equal(
        read_text(write(tmp_path / "a.csv", text)).values, [[1, np.nan, 0.5], [np.nan] * 3, [0.5, np.nan, 1]]
    )


def test_missing_cells_become_nan(tmp_path, write):
    values = read_text(write(tmp_path / "a.tsv", "a\tb\tc\n1.5\tn/a\t\n2.5\tn/a\t4\n")).values
    np.testing.assert_array_equal(values, [[1.5, np.nan, np.nan], [2.5, np.nan, 4.0]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        (" \n\n", "empty"),
        ("a,b\n", "volumes"),
        ("a,b\n1.0,2.0\n3.0,x7\n", "line 3, column 2 .*'x7'"),
        ("1.0,oops\n3.0,4.0\n", "line 1, column 2 .*'oops'"),
        ("#a\t#b\n1.0\toops\n3.0\t4.0\n", "line 2, column 2 .*'oops'"),
        ("a,b\n1.0,2.0\n3.0\n", "line 3 .*1 cells"),
        ("a,b\n1,5;2,5\n1,5;2,5\n", "1 columns .*2 cells"),
        ("x\0y", "text"),
        ("1.0,1_1\n1.0,2.0\n", "line 1, column 2 .*'1_1'"),
    ],
)
def test_every_mistake_has_a_place(tmp_path, write, text, message):
    with pytest.raises(ReaderError, match=message):
        read_text(write(tmp_path / "a.csv", text))
