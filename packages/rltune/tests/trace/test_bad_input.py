"""Damaged files: one sentence with file, line and column, never a traceback, for every reader that it can happen to."""

import gzip
import json
import random
import re
from pathlib import Path

import polars as pl
import pytest

from rltune.errors import InputError
from rltune.trace import derived, helios, load, openb, pai_sim, table

DATA = Path(__file__).parent / "data"
FILES = json.loads((DATA / "formats.json").read_text())
HEADED = ("csv", "helios", "pai-sim", "openb", "philly-csv", "arrival-csv", "gaia")

REQUIRED = {
    "csv": table.COLUMNS,
    "helios": helios.COLUMNS,
    "pai-sim": pai_sim.COLUMNS,
    "openb": openb.COLUMNS,
    "philly-csv": derived.PHILLY,
    "arrival-csv": derived.ARRIVAL,
    "gaia": derived.GAIA,
}

# format: line, the column's name, its place
NUMBERS = {
    "csv": (3, "duration_s", 2),
    "swf": (6, "run", 3),
    "helios": (2, "gpu_num", 4),
    "pai": (2, "start_time", 4),
    "pai-sim": (3, "duration", 6),
    "openb": (3, "cpu_milli", 1),
    "rltune-csv": (2, "run_time", 3),
    "philly-csv": (3, "run_time_s", 3),
    "arrival-csv": (2, "service_sec", 2),
    "gaia": (3, "length", 1),
}
TIMES = NUMBERS | {
    "helios": (2, "duration", 11),
    "openb": (3, "creation_time", 8),
    "arrival-csv": (3, "arrival_s", 1),
    "swf": (6, "submit", 1),
}
IDS = {
    "csv": ("id", 2),
    "swf": ("job", 5),
    "helios": ("job_id", 2),
    "pai-sim": ("job_id", 2),
    "openb": ("name", 2),
    "rltune-csv": ("job_id", 1),
    "philly-csv": ("job_id", 2),
    "arrival-csv": ("job_id", 2),
}


def damaged(tmp_path, name, line, place, value):
    """Copy a good file with one field replaced."""
    lines = (DATA / FILES[name]).read_text().splitlines()
    separator = None if name == "swf" else ","
    fields = lines[line - 1].split(separator)
    fields[place] = value
    lines[line - 1] = (separator or " ").join(fields)
    path = tmp_path / "bad.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def sentence_of(path, name):
    """Give the sentence by which a file is refused; None if it is read. Anything but InputError goes through."""
    try:
        load(path, name)
    except InputError as error:
        return str(error)
    return None


def refusal(path, name=None):
    with pytest.raises(InputError) as caught:
        load(path, name)
    sentence = str(caught.value)
    assert sentence.startswith(str(path))
    assert "\n" not in sentence
    return sentence.removeprefix(str(path))


@pytest.mark.parametrize("name", NUMBERS)
def test_text_in_a_number(name, tmp_path):
    line, column, place = NUMBERS[name]
    path = damaged(tmp_path, name, line, place, "many")
    assert refusal(path, name).startswith(f", line {line}, column {column}: 'many' is not a number")


@pytest.mark.parametrize("name", TIMES)
def test_a_negative_time(name, tmp_path):
    line, column, place = TIMES[name]
    path = damaged(tmp_path, name, line, place, "-5")
    assert re.match(rf", line {line}, column {column}: '?-5'? is (negative|less than -1)", refusal(path, name))


@pytest.mark.parametrize("value", ["inf", "1e999", "1605470247000"])
def test_a_time_that_is_no_time_in_seconds(value, tmp_path):
    assert "column duration_s" in refusal(damaged(tmp_path, "csv", 2, 2, value))


@pytest.mark.parametrize("value", ["1.5", "-1", "99999999999", "nan"])
@pytest.mark.parametrize(("name", "line", "column", "place"), [("csv", 2, "gpus", 3), ("helios", 2, "gpu_num", 4)])
def test_gpus_are_whole(name, line, column, place, value, tmp_path):
    assert refusal(damaged(tmp_path, name, line, place, value)).startswith(f", line {line}, column {column}: ")


@pytest.mark.parametrize("name", IDS)
def test_a_job_id_used_twice(name, tmp_path):
    column, first = IDS[name]
    lines = (DATA / FILES[name]).read_text().splitlines()
    path = tmp_path / "twice.txt"
    path.write_text("\n".join([*lines, lines[first - 1]]) + "\n")
    said = refusal(path, name)
    assert said.startswith(f", line {len(lines) + 1}, column {column}: job id ")
    assert f"was used before, in line {first}" in said


@pytest.mark.parametrize("name", HEADED)
def test_every_column_that_must_be_there_is_missed_by_name(name, tmp_path):
    lines = (DATA / FILES[name]).read_text().splitlines()
    header = lines[0].split(",")
    for column in header:
        path = tmp_path / f"{column}.csv"
        path.write_text("\n".join([re.sub(rf"\b{column}\b", "other", lines[0], count=1), *lines[1:]]))
        if column in REQUIRED[name]:
            assert re.match(rf", line 1: column {column} is missing; the file has ", refusal(path, name))
        else:
            load(path, name)


@pytest.mark.parametrize("name", HEADED)
def test_a_file_that_lacks_one_column_is_still_recognised(name, tmp_path):
    if name == "gaia":
        pytest.skip("two of three columns remain, which are too common")
    lines = (DATA / FILES[name]).read_text().splitlines()
    column = {"csv": "gpus", "openb": "num_gpu", "helios": "gpu_num"}.get(name, lines[0].split(",")[2])
    path = tmp_path / "lacking.csv"
    path.write_text("\n".join([lines[0].replace(column, "other", 1), *lines[1:]]))
    assert f"column {column} is missing" in refusal(path)


@pytest.mark.parametrize("name", HEADED)
def test_a_header_without_jobs(name, tmp_path):
    path = tmp_path / "bare.csv"
    path.write_text((DATA / FILES[name]).read_text().splitlines()[0] + "\n")
    assert refusal(path, name) == ": holds a header line and no jobs"


@pytest.mark.parametrize("name", [*FILES, None])
def test_files_that_are_no_traces(name, tmp_path):
    empty, garbage, folder = tmp_path / "empty", tmp_path / "garbage", tmp_path / "folder"
    empty.write_bytes(b"")
    garbage.write_bytes(bytes(range(256)) * 40)
    folder.mkdir()
    assert refusal(empty, name) == ": is empty"
    assert refusal(garbage, name) == ", line 1: is not text (it holds a zero byte)"
    assert refusal(folder, name) == ": is a directory; name one of the files in it"
    assert refusal(tmp_path / "nowhere", name) == ": there is no such file"


@pytest.mark.parametrize("name", FILES)
def test_a_gzip_file_cut_short(name, tmp_path):
    packed = gzip.compress((DATA / FILES[name]).read_bytes())
    path = tmp_path / "cut.gz"
    path.write_bytes(packed[: len(packed) // 2])
    assert refusal(path) == ": the gzip file is cut short; copy it again"
    path.write_bytes(packed[:40] + b"\0" * 20 + packed[60:])
    assert "the gzip file is damaged" in refusal(path) or "is not text" in refusal(path)


@pytest.mark.parametrize("name", [*FILES, "parquet"])
def test_any_format_given_a_file_of_another(name, tmp_path):
    """Whatever the reader makes of it, it is one sentence that says what the file looks like."""
    for other, file in FILES.items():
        # our csv and the derived ones differ in nothing but their columns' names
        if other != name:
            assert f"the file looks like format {other}, not {name}" in refusal(DATA / file, name)


def test_an_unknown_file_and_an_unknown_format_list_the_valid_ones(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("dear diary\nnothing happened\n")
    assert "not a trace format known here (it begins 'dear diary')" in refusal(path)
    assert all(name in refusal(path) for name in FILES)
    with pytest.raises(InputError, match="no trace format 'xls'; there are: parquet, csv, sacct"):
        load(path, "xls")


@pytest.mark.parametrize(("magic", "kind"), [(b"PK\x03\x04", "zip"), (b"BZh9", "bzip2"), (b"\xfd7zXZ\0", "xz")])
def test_other_archives_are_named(magic, kind, tmp_path):
    path = tmp_path / "archive"
    path.write_bytes(magic + b"....")
    assert f"is a {kind} archive; unpack it first" in refusal(path)


def test_text_that_is_not_utf8_is_located(tmp_path):
    path = tmp_path / "latin.csv"
    path.write_bytes(b"submit_s,duration_s,gpus,user\n0,1,1,ann\n1,1,1,j\xf6rg\n")
    assert refusal(path) == ", line 3: is not text in UTF-8"


def test_csv_lines_that_are_too_long_or_too_short(tmp_path):
    path = tmp_path / "ragged.csv"
    path.write_text("submit_s,duration_s,gpus\n0,1,1\n1,1,1,9\n")
    assert refusal(path) == ", line 3: has 4 fields, the first line has 3"
    path.write_text("submit_s,duration_s,gpus\n0,1,1\n1,1")
    assert refusal(path) == ", line 3, column gpus: '' is not a number"


def test_a_quotation_mark_that_is_never_closed(tmp_path):
    path = tmp_path / "quote.csv"
    path.write_text('submit_s,duration_s,gpus,user\n0,1,1,ann\n1,1,1,"bob\n2,1,1,cy\n')
    assert "line 3: a quotation mark is opened and not closed" in refusal(path)


def test_a_column_that_stands_twice(tmp_path):
    path = tmp_path / "twice.csv"
    path.write_text("submit_s,duration_s,gpus,gpus\n0,1,1,1\n")
    assert refusal(path) == ", line 1: column gpus stands twice"


def test_lines_are_counted_right_after_a_quoted_line_end(tmp_path):
    path = tmp_path / "lines.csv"
    path.write_text('submit_s,duration_s,gpus,name\n0,1,1,"a\nb\nc"\n1,x,1,d\n')
    assert refusal(path).startswith(", line 5, column duration_s: 'x'")


def test_a_trace_in_which_no_job_can_be_used(tmp_path):
    path = tmp_path / "none.csv"
    path.write_text("job_id,arrival_s,service_sec,gpu_count\na,0,1,0\nb,0,1,0\n")
    assert refusal(path) == ": none of 2 rows is a job that can be replayed (no-gpu-no-cpu 2)"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1, 2", "is not valid JSON"),
        ('[{"jobid": "a"}]', "key status is missing in job a"),
        ("[]", "holds an empty list, no jobs"),
        ("{}", "is not a list of jobs"),
        ("[3]", "a job should be an object with status"),
        ("[" * 100_000, "is not"),
    ],
)
def test_philly_json_that_is_not_a_list_of_jobs(text, said, tmp_path):
    path = tmp_path / "log.json"
    path.write_text(text)
    assert said in refusal(path, "philly")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"2017-10-07 01:11:39"', '"noon"', ", line 5, column submitted_time: 'noon' is not a time like"),
        ('"2017-10-07 01:12:09"', '"later"', ", line 5, column start_time: 'later' is not a time like"),
        ('["gpu0", "gpu1", "gpu2", "gpu3"]', "4", ", line 5, column gpus: is not a list of GPUs"),
        ('[{"ip": "m41",', '[7, {"ip": "m41",', ", line 5, column detail: is not a list of machines"),
        ("application_1_0002", "application_1_0001", ", line 24, column jobid: job id 'application_1_0001' was used"),
        ('"attempts": []', '"attempts": 0', ", line 24, column attempts: is not a list of attempts"),
    ],
)
def test_philly_json_with_a_bad_value(old, new, said, tmp_path):
    path = tmp_path / "log.json"
    path.write_text((DATA / "cluster_job_log.json").read_text().replace(old, new, 1))
    assert refusal(path, "philly").startswith(said)


def test_philly_json_cut_in_the_middle(tmp_path):
    path = tmp_path / "log.json"
    path.write_text((DATA / "cluster_job_log.json").read_text()[:900])
    assert re.match(r", line \d+: is not valid JSON .* is the file complete\?", refusal(path))


def test_swf_in_which_every_line_has_a_field_too_many(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text("; MaxProcs: 8\n1 0 5 60 1 -1 -1 1 100 -1 1 1 1 -1 1 1 -1 -1 7\n")
    assert "has 19 fields; a line of SWF has 18" in sentence_of(path, None)


def test_swf_with_a_line_of_the_wrong_length(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text((DATA / "small.swf").read_text() + "7 160 0 1\n")
    assert refusal(path) == ", line 12: has 4 fields; a line of SWF has 18"
    path.write_text("; Version: 2\n; MaxJobs: 0\n")
    assert refusal(path) == ": holds a header and no jobs"


def test_a_pai_table_without_its_fellow(tmp_path):
    path = tmp_path / "pai_job_table.csv"
    path.write_bytes((DATA / "pai_job_table.csv").read_bytes())
    assert "holds no resources; lay pai_task_table.csv beside it" in refusal(path)


def test_dates_that_are_none_where_one_is_needed(tmp_path):
    path = damaged(tmp_path, "helios", 2, 8, "None")
    assert refusal(path).startswith(", line 2, column submit_time: 'None' is not a time")
    path = damaged(tmp_path, "helios", 2, 8, "9/6/2020")
    assert refusal(path).startswith(", line 2, column submit_time: '9/6/2020' is not a time like")


def test_parquet_that_is_cut_or_holds_other_things(tmp_path):
    path = tmp_path / "jobs.parquet"
    frame = pl.DataFrame({"submit_s": [0.0], "duration_s": [1.0], "gpus": [1]})
    frame.write_parquet(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert "is not a complete parquet file" in refusal(path)
    frame.with_columns(gpus=pl.lit("two")).write_parquet(path)
    assert refusal(path) == ", line 1, column gpus: 'two' is not a number"
    frame.drop("gpus").write_parquet(path)
    assert "column gpus is missing" in refusal(path)
    frame.with_columns(user=pl.struct("gpus")).write_parquet(path)
    assert ", column user: holds Struct" in refusal(path)


@pytest.mark.parametrize("name", FILES)
def test_random_damage_is_read_or_refused_and_never_a_traceback(name, tmp_path):
    """Bytes lost, doubled, swapped or overwritten, 150 times for each format."""
    good = (DATA / FILES[name]).read_bytes()
    rng = random.Random(name)
    path = tmp_path / FILES[name]
    for _ in range(150):
        bad = bytearray(good)
        for _ in range(rng.randint(1, 6)):
            at, length = rng.randrange(len(bad)), rng.randint(1, 30)
            part = bad[at : at + length]
            bad[at : at + length] = rng.choice(
                [b"", part + part, part[::-1], b"-", b'"', b",", b"\n", b"1e400", b"\xff", b"|"]
            )
        path.write_bytes(bytes(bad))
        for asked in (name, None):
            said = sentence_of(path, asked)
            assert said is None or "\n" not in said
