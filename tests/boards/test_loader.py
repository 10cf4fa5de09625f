from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.boards.board import GridName, Language, Precision, RankBy, Work
from harness.boards.loader import load_board, require_rankable
from harness.errors import RequestError

FILES = [
    {"name": "submission.py", "source": "@SUBMISSION@"},
    {"name": "reference.py", "source": "reference.py"},
    {"name": "eval.py", "source": "../eval.py"},
]


def test_a_python_folder(make_board) -> None:
    folder = make_board("vectoradd_py", test_timeout=60, gpus=["B200"], seed=7, libraries=["x"])
    board = load_board(folder)
    assert (board.name, board.folder, board.language, board.main) == (
        "vectoradd_py",
        folder,
        Language.PYTHON,
        "eval.py",
    )
    assert [(f.name, f.source) for f in board.files][:3] == [
        ("submission.py", None),
        ("task.py", folder / "task.py"),
        ("utils.py", folder.parent / "utils.py"),
    ]
    assert board.full_grid.tests == ({"n": 4, "seed": 1}, {"n": 5, "seed": 2})
    assert (board.test_timeout_s, board.benchmark_timeout_s, board.ranked_timeout_s) == (60, 180, 180)
    assert (board.gpus, board.seed, board.libraries) == (("B200",), 7, ("x",))
    assert board.templates == {"Python": folder / "template.py"}
    assert board.cuda is None
    assert board.grid(GridName.CPU) is board.full_grid
    require_rankable(board, board.full_grid)


def test_a_set_files_name_and_gpus_win(make_board) -> None:
    board = load_board(make_board(gpus=["B200"]), name="other", gpus=["L4"])
    assert (board.name, board.gpus) == ("other", ("L4",))


def test_what_may_be_missing(make_board) -> None:
    keys = ("description", "templates", "ranking_by", "tests", "benchmarks")
    board = load_board(make_board(drop=keys))
    assert (board.description, board.templates, board.ranking_by) == ("", {}, RankBy.LAST)
    assert board.full_grid.tests == board.full_grid.benchmarks == ()
    with pytest.raises(RequestError, match="has no benchmarks"):
        require_rankable(board, board.full_grid)


def test_a_folder_without_ranking_by_and_with_several_benchmarks_loads_but_does_not_rank(make_board) -> None:
    board = load_board(make_board(drop=("ranking_by",), benchmarks=[{"n": 1}, {"n": 2}]))
    with pytest.raises(RequestError, match="score of one benchmark, but the full grid has 2"):
        require_rankable(board, board.full_grid)


def test_values_of_every_kind(make_board) -> None:
    case = {"m": [96, 128], "nested": [[1, 2], ["a"]], "rate": 0.5, "on": True, "kind": "bf16", "seed": None, "e_1": -3}
    (read,) = load_board(make_board(benchmarks=[case])).full_grid.benchmarks
    assert read == {**case, "m": (96, 128), "nested": ((1, 2), ("a",))}
    assert list(read) == list(case)


def test_unquoted_yaml_text(make_board) -> None:
    folder = make_board()
    text = (folder / "task.yml").read_text()
    (folder / "task.yml").write_text(text + 'validation:\n  name: "x"\n  shapes:\n  - {"n": 3}\nextra: 1\n')
    assert load_board(folder).full_grid.tests[0] == {"n": 4, "seed": 1}


def test_a_cuda_folder(make_board) -> None:
    folder = make_board(
        "identity_cuda",
        lang="cu",
        files=[
            {"name": "eval.cu", "source": "eval.cu"},
            {"name": "inc/task.h", "source": "task.h"},
            {"name": "submission.cu", "source": "@SUBMISSION@"},
        ],
        config={
            "sources": ["eval.cu", "submission.cu"],
            "include_dirs": ["inc"],
            "defines": {"WIDTH": 4, "MODE": "fast"},
            "compile_flags": ["-O3"],
        },
        templates={"CUDA": "template.cu", "Triton": "template.py", "HIP": "template.cu"},
        files_text={"eval.cu": "int main() {}", "task.h": "", "template.cu": "//!POPCORN leaderboard x\n"},
        tests=[{"size": 8}],
        benchmarks=[{"size": 8}],
    )
    board = load_board(folder)
    assert board.language is Language.CUDA
    assert board.main == ""
    assert board.cuda is not None
    assert board.cuda.sources == ("eval.cu", "submission.cu")
    assert (board.cuda.include_dirs, board.cuda.compile_flags) == (("inc",), ("-O3",))
    assert board.cuda.defines == {"WIDTH": "4", "MODE": "fast"}
    assert list(board.templates) == ["CUDA", "Triton", "HIP"]


def test_a_multi_gpu_folder(make_board) -> None:
    cases = [{"world_size": 8, "m": 64}]
    board = load_board(make_board("all2all", multi_gpu=True, tests=cases, benchmarks=cases))
    assert board.multi_gpu
    with pytest.raises(RequestError, match=r"tests\[1\].world_size"):
        load_board(make_board("other", multi_gpu=True, tests=[*cases, {"m": 64}]))


@pytest.mark.parametrize(
    ("change", "where", "message"),
    [
        ({"drop": ("lang",)}, "lang", "the key is missing"),
        ({"lang": "model"}, "lang", "'model' is unknown (allowed: py, cu)"),
        ({"lang": 3}, "lang", "a number (3) where text is needed"),
        ({"drop": ("files",)}, "files", "the key is missing"),
        ({"files": {}}, "files", "a mapping ({}) where a list is needed"),
        ({"files": ["task.py"]}, "files[0]", "a text ('task.py') where keys with values are needed"),
        ({"files": [*FILES, {"name": "x.py"}]}, "files[3].source", "the key is missing"),
        ({"files": [*FILES, {"name": "x.py", "source": "no.py"}]}, "files[3].source", "'no.py' can't be read: No such"),
        ({"files": [*FILES, {"name": "x.py", "source": ".."}]}, "files[3].source", "'..' can't be read"),
        ({"files": [*FILES, {"name": "../x.py", "source": "task.py"}]}, "files[3].name", "beside the submission"),
        ({"files": [*FILES, {"name": "eval.py", "source": "task.py"}]}, "files[3].name", "given twice"),
        ({"files": FILES[1:]}, "files", "no file is the submission"),
        ({"drop": ("config",)}, "config", "the key is missing"),
        ({"config": {}}, "config.main", "the key is missing"),
        ({"config": {"main": "evil.py"}}, "config.main", "'evil.py' is not one of the files"),
        ({"lang": "cu"}, "config.sources", "the key is missing"),
        ({"lang": "cu", "config": {"sources": ["x.cu"]}}, "config.sources[0]", "'x.cu' is not one of the files"),
        ({"templates": {"Python": "no.py"}}, "templates.Python", "'no.py' can't be read"),
        ({"templates": ["x"]}, "templates", "a list (['x']) where keys with values is needed"),
        ({"tests": {"n": 1}}, "tests", "a mapping"),
        ({"tests": [1]}, "tests[0]", "a number (1)"),
        ({"tests": [{"n": {"a": 1}}]}, "tests[0].n", "a dict can't be a case's value"),
        ({"tests": [{"n": float("inf")}]}, "tests[0].n", "inf is not a finite number"),
        ({"tests": [{"a-b": 1}]}, "tests[0].a-b", "can't be an argument"),
        ({"tests": [{"lambda": 1}]}, "tests[0].lambda", "can't be an argument"),
        ({"tests": [{1: 1}]}, "tests[0]", "the key 1 is not text"),
        ({"ranking_by": "median"}, "ranking_by", "'median' is unknown (allowed: last, mean, geom)"),
        ({"ranking_by": "last", "benchmarks": [{"n": 1}, {"n": 2}]}, "ranking_by", "there are 2"),
        ({"test_timeout": "60"}, "test_timeout", "a text ('60') where a whole number of seconds is needed"),
        ({"test_timeout": True}, "test_timeout", "a boolean"),
        ({"ranked_timeout": 0}, "ranked_timeout", "0 seconds"),
        ({"gpus": "B200"}, "gpus", "a text ('B200') where a list is needed"),
        ({"gpus": [4090]}, "gpus[0]", "a number (4090) where text is needed"),
        ({"multi_gpu": "yes"}, "multi_gpu", "true or false"),
        ({"seed": 1.5}, "seed", "a number (1.5) where a whole number is needed"),
        ({"description": ["x"]}, "description", "a list"),
    ],
)
def test_a_malformed_folder_gets_one_error_with_file_and_key(
    make_board, change: dict[str, Any], where: str, message: str
) -> None:
    folder = make_board(**change)
    with pytest.raises(RequestError) as caught:
        load_board(folder)
    assert caught.value.where == f"{folder / 'task.yml'}: {where}"
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("lang: py\nlang: cu\n", ":2", "the key 'lang' is given twice, first on line 1"),
        ("tests:\n  - {n: 1, n: 2}\n", ":2", "the key 'n' is given twice, first on line 2"),
        ("lang: [py\n", ":2", "not YAML"),
        ("lang: !!python/name:os.system\n", ":1", "not YAML"),
        ("a: 2025-99-99\n", "", "not YAML: month must be in 1..12"),
        ("a: &a {b: *a}\n", ":1", "not YAML: found unconstructable recursive node"),
        ("? [1]\n: 2\n", ":1", "a list can't be a key"),
        ("", "", "the file is empty"),
        ("- 1\n", "", "holds a list"),
        ("\x07", "", "not YAML"),
        ("[" * 5000, ":1", "not YAML"),
        ("[" * 50000 + "]" * 50000, ":1", "not YAML"),
    ],
)
def test_what_is_no_yaml_mapping(make_board, text: str, line: str, message: str) -> None:
    folder = make_board()
    (folder / "task.yml").write_text(text)
    with pytest.raises(RequestError) as caught:
        load_board(folder)
    assert caught.value.where == f"{folder / 'task.yml'}{line}"
    assert message in caught.value.what


def test_lists_are_bounded(make_board) -> None:
    folder = make_board()
    text = (folder / "task.yml").read_text().replace("n: 4", "n: &x [*x]")
    (folder / "task.yml").write_text(text)
    with pytest.raises(RequestError):
        load_board(folder)


def test_what_is_no_folder(tmp_path: Path, make_board) -> None:
    with pytest.raises(RequestError, match="there is no such folder"):
        load_board(tmp_path / "none")
    with pytest.raises(RequestError, match=r"the folder has no task.yml"):
        load_board(tmp_path)
    folder = make_board()
    with pytest.raises(RequestError, match="not a folder"):
        load_board(folder / "task.py")
    assert load_board(folder / "task.yml").name == "add"
    (folder / "task.py").write_bytes(b"\xff")
    with pytest.raises(RequestError, match=r"files\[1\].source: 'task.py' is no UTF-8 text"):
        load_board(folder)


def test_names_that_cannot_be_boards(make_board) -> None:
    for name in ("my board", "12"):
        folder = make_board(name)
        with pytest.raises(RequestError, match="can't name a board"):
            load_board(folder)
        assert load_board(folder, name="mine").name == "mine"


HARNESS = {
    "grids": {"cpu": {"tests": [{"n": 2, "seed": 1}], "benchmarks": [{"n": 3, "seed": 1}]}},
    "in_place": [6, "0.*.2", "config.k"],
    "allow_non_finite": True,
    "speed_of_light": {"flops": "n**3/3", "bytes": 8, "precision": "bf16"},
    "floor": {"function": "work", "precision": "tf32"},
    "worker_files": ["task.py"],
    "aliases": ["plus"],
    "baselines": ["add_torch.py"],
    "lint": {"wrong_answers": ["halved"], "lowest_precision": "bf16"},
}


def test_harness_yml(make_board) -> None:
    settings = load_board(make_board(harness=HARNESS)).settings
    assert settings.cpu_grid is not None
    assert settings.cpu_grid.name is GridName.CPU
    assert settings.cpu_grid.benchmarks == ({"n": 3, "seed": 1},)
    assert settings.in_place == ("6", "0.*.2", "config.k")
    assert settings.allow_non_finite
    assert settings.speed_of_light == Work("n**3/3", "8", Precision.FP16)
    assert settings.floor == Work(precision=Precision.TF32, function="work")
    assert settings.worker_files == ("task.py",)
    assert (settings.aliases, settings.baselines) == (("plus",), ("add_torch.py",))
    assert (settings.lint.wrong_answers, settings.lint.lowest_precision) == (("halved",), "bf16")


@pytest.mark.parametrize(
    ("change", "where", "message"),
    [
        ({"grid": {}}, "grid", "unknown key"),
        ({"grids": {"gpu": {}}}, "grids.gpu", "unknown key (allowed: cpu)"),
        ({"grids": {"cpu": {"test": []}}}, "grids.cpu.test", "Did you mean 'tests'?"),
        ({"grids": {"cpu": {"tests": [{"n": 1}]}}}, "grids.cpu.benchmarks", "the CPU grid has none"),
        ({"in_place": ["0..1"]}, "in_place[0]", "is no path into the data"),
        ({"in_place": [True]}, "in_place[0]", "is no path into the data"),
        ({"in_place": [-1]}, "in_place[0]", "is no path into the data"),
        ({"speed_of_light": {}}, "speed_of_light", "nothing is counted"),
        ({"speed_of_light": {"flops": "2*"}}, "speed_of_light.flops", "expression '2*': not an expression"),
        ({"speed_of_light": {"flops": "f(n)"}}, "speed_of_light.flops", "there is no function 'f'"),
        ({"speed_of_light": {"flops": "1", "precision": "fp12"}}, "speed_of_light.precision", "'fp12' is unknown"),
        ({"floor": {"function": "work", "bytes": "1"}}, "floor.bytes", "gives flops and bytes already"),
        ({"floor": {"function": "a b"}}, "floor.function", "is no name of a function"),
        ({"worker_files": ["tasks.py"]}, "worker_files[0]", "Did you mean 'task.py'?"),
        ({"aliases": ["a b"]}, "aliases[0]", "can't name a board"),
        ({"baselines": ["../x.py"]}, "baselines[0]", "is not a plain file name"),
        ({"lint": {"lowest_precision": "fp5"}}, "lint.lowest_precision", "'fp5' is unknown"),
        ({"lint": {"wrong_answers": ["a b"]}}, "lint.wrong_answers[0]", "is no name of a function"),
        ({"allow_non_finite": "no way"}, "allow_non_finite", "true or false"),
    ],
)
def test_harness_yml_is_strict(make_board, change: dict[str, Any], where: str, message: str) -> None:
    folder = make_board(harness=change)
    with pytest.raises(RequestError) as caught:
        load_board(folder)
    assert caught.value.where == f"{folder / 'harness.yml'}: {where}"
    assert message in str(caught.value)


keys = st.sampled_from(
    ["lang", "files", "config", "tests", "benchmarks", "templates", "gpus", "grids", "floor", "lint"]
)
inner_keys = st.sampled_from(["name", "source", "main", "cpu", "tests", "flops", "function", "n"]) | st.text(max_size=3)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["py", "cu", "task.py", "@SUBMISSION@"])
    | st.text(max_size=5) | st.dates(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(inner_keys, children, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(st.dictionaries(keys, values, max_size=3), st.sampled_from(["task.yml", "harness.yml"]))
def test_any_change_loads_or_gives_one_error(tmp_path_factory, change: dict[str, Any], name: str) -> None:
    folder = tmp_path_factory.getbasetemp() / "fuzzed"
    folder.mkdir(exist_ok=True)
    for file in ("task.py", "reference.py", "eval.py"):
        (folder / file).write_text("")
    base = {
        "lang": "py",
        "config": {"main": "eval.py"},
        "files": [*FILES[:2], {"name": "eval.py", "source": "eval.py"}],
    }
    (folder / "task.yml").write_text(yaml.safe_dump(base | (change if name == "task.yml" else {})))
    (folder / "harness.yml").write_text(yaml.safe_dump(change if name == "harness.yml" else {"in_place": []}))
    try:
        board = load_board(folder)
    except RequestError as error:
        assert str(folder) in error.where  # noqa: PT017 (either outcome is right)
    else:
        assert board.name == "fuzzed"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(st.binary(max_size=40) | st.text("{}[]:,-&*!|>#'\" \nab1", max_size=30).map(str.encode))
def test_any_bytes_give_one_error(tmp_path_factory, raw: bytes) -> None:
    folder = tmp_path_factory.getbasetemp() / "bytes"
    folder.mkdir(exist_ok=True)
    (folder / "task.yml").write_bytes(raw)
    with pytest.raises(RequestError):
        load_board(folder)
