"""The configuration: what is accepted, and what is said of what is not."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import create_model

from fair_allocator import config
from fair_allocator.config import (
    TEMPLATE,
    Configuration,
    PoolConfiguration,
    example,
    fingerprint,
    guarantees,
    load,
    loading,
    reference,
)
from fair_allocator.config.keys import known_settings
from fair_allocator.errors import ConfigurationError
from fair_allocator.events import PoolSettings
from hatch_build import OPTIMISE, PURE
from tests.support.needs import REQUIRE_ALL
from tests.support.pace import FORCED


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "fair-allocator.toml"


def complaints(file: Path | None, text: str = "", **variables: str) -> list[str]:
    """Load what must be refused; return the lines of the error without the file's folder."""
    if file is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError) as refusal:
        load(file, {f"FAIR_ALLOCATOR_{name}": value for name, value in variables.items()})
    return str(refusal.value).replace("" if file is None else f"{file.parent}/", "").split("\n")


def complaint(file: Path | None, text: str = "", **variables: str) -> str:
    (line,) = complaints(file, text, **variables)
    return line.removeprefix("fair-allocator.toml: ")


# -- what is accepted ---------------------------------------------------------------------------


def test_nothing_said_gives_the_defaults() -> None:
    configuration = load(None, {})
    assert configuration == Configuration()
    assert configuration.log.path == Path("fair-allocator.db")
    assert configuration.log.retain_records == 1_000_000
    assert configuration.limits.retire_after_seconds is None
    assert configuration.pools == {}


def test_the_file_is_read(file: Path) -> None:
    file.write_text(
        'seed = 7\n[log]\npath = "x.db"\npartitions = 8\n[pools.tasks]\nreward_timeout = 60\n'
        '[pools.tasks.arms]\nann = 0.07\nbob = "1/3"\ncyd = 0\n[pools."*"]\narms = { a = 1 }\n'
    )
    configuration = load(file, {})
    assert configuration.seed == 7
    assert (configuration.log.path, configuration.log.partitions) == (Path("x.db"), 8)
    assert configuration.pools["tasks"].arms == {"ann": 0.07, "bob": "1/3", "cyd": 0}
    assert configuration.pools["tasks"].reward_timeout == 60
    assert configuration.pools[TEMPLATE].learner == "ucb1"


def test_variables_go_before_the_file(file: Path) -> None:
    file.write_text('seed = 7\n[log]\npath = "x.db"\npartitions = 8\n')
    configuration = load(
        file,
        {
            "FAIR_ALLOCATOR_SEED": "9",
            "FAIR_ALLOCATOR_LOG__PATH": "123",
            "FAIR_ALLOCATOR_LOG__PARTITIONER": "crc32",
            "FAIR_ALLOCATOR_LIMITS__RECORD_BYTES": "1_024",
            "FAIR_ALLOCATOR_SERVICE__POLL_SECONDS": "1e-1",
            "HOME": "/root",
        },
    )
    assert configuration.seed == 9
    assert configuration.log.path == Path("123")
    assert (configuration.log.partitions, configuration.log.partitioner) == (8, "crc32")
    assert configuration.limits.record_bytes == 1024
    assert configuration.service.poll_seconds == 0.1


def test_none_takes_a_default_away(file: Path) -> None:
    file.write_text('[log]\nretain_records = "none"\n')
    assert load(file, {}).log.retain_records is None
    assert load(None, {"FAIR_ALLOCATOR_LOG__RETAIN_RECORDS": "none"}).log.retain_records is None


@pytest.mark.parametrize(
    "text", ["a.example,b.example", " a.example , b.example", "['a.example', 'b.example']"]
)
def test_a_list_may_be_written_with_commas(text: str) -> None:
    hosts = load(None, {"FAIR_ALLOCATOR_OBSERVE__HOSTS": text}).observe.hosts
    assert hosts == ("a.example", "b.example")


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            "tolerance = 0.5",
            "tolerance 0.5 promises no less than 0 does: an arm falls short by whole pulls",
        ),
        (
            "default_reward = 0.5",
            "default_reward has no effect: without reward_timeout no reward is given up",
        ),
        ("default_reward = 0.5\nreward_timeout = 60", None),
        ("tolerance = 2", None),
    ],
)
def test_what_has_no_effect_is_warned_of(file: Path, text: str, warning: str | None) -> None:
    file.write_text(f"[pools.tasks]\narms = {{a = 0.1}}\n{text}\n")
    (pool,) = guarantees(load(file, {}))
    assert pool.warnings == (() if warning is None else (warning,))


def test_a_word_that_resembles_nothing_gets_no_suggestion() -> None:
    assert complaint(None, COLOUR="red") == "FAIR_ALLOCATOR_COLOUR: unknown variable"


def test_an_empty_variable_counts_as_not_set() -> None:
    empty = {"FAIR_ALLOCATOR_LOG__PATH": "", "FAIR_ALLOCATOR_CONFIG": "", "FAIR_ALLOCATOR_SEED": ""}
    assert load(None, empty) == Configuration()


def test_a_variable_names_the_file_unless_the_caller_does(file: Path, tmp_path: Path) -> None:
    file.write_text("seed = 7\n")
    environ = {"FAIR_ALLOCATOR_CONFIG": str(file), "FAIR_ALLOCATOR_REQUIRE_ALL": "1"}
    assert load(None, environ).seed == 7
    other = tmp_path / "other.toml"
    other.write_text("seed = 8\n")
    assert load(other, environ).seed == 8


def test_a_byte_order_mark_and_crlf_are_no_trouble(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbfseed = 7\r\n[log]\r\npartitions = 2\r\n")
    assert load(file, {}).log.partitions == 2


def test_the_variables_of_a_kubernetes_service_are_not_ours() -> None:
    injected = {
        "FAIR_ALLOCATOR_SERVICE_HOST": "10.0.0.1",
        "FAIR_ALLOCATOR_SERVICE_PORT": "8080",
        "FAIR_ALLOCATOR_SERVICE_PORT_HTTP": "8080",
        "FAIR_ALLOCATOR_PORT": "tcp://10.0.0.1:8080",
        "FAIR_ALLOCATOR_PORT_8080_TCP": "tcp://10.0.0.1:8080",
        "FAIR_ALLOCATOR_PORT_8080_TCP_ADDR": "10.0.0.1",
        "FAIR_ALLOCATOR_METRICS_SERVICE_HOST": "10.0.0.1",
    }
    assert load(None, injected) == Configuration()
    assert "unknown variable" in complaint(None, METRICS_PORT="8080")


@pytest.mark.parametrize("name", [PURE, OPTIMISE, REQUIRE_ALL, FORCED])
def test_variables_of_the_build_and_of_the_tests_are_no_settings(name: str) -> None:
    assert config.load(None, {name: "1"}) == Configuration()


# -- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pools.tasks.arms.bob = 1.5", "pools.tasks.arms.bob: quota must be in [0, 1], got 1.5"),
        (
            "pools.tasks.arms.bob = '-1'",
            "pools.tasks.arms.bob: quota must be in [0, 1], got -1",
        ),
        (
            "pools.tasks.arms.bob = true",
            'pools.tasks.arms.bob: quota: expected a number such as 0.2, "0.2" or "1/5", got True',
        ),
        (
            "pools.tasks.arms = {a = 0.6, b = '0.45'}",
            "pools.tasks: quotas sum to 1.05, which is 0.05 above 1; lower some of them",
        ),
        ("pools.tasks.arms = {}", "pools.tasks: a pool needs at least one arm"),
        ("pools.tasks.arms = ['a']", "pools.tasks.arms: must be a table, got a list"),
        ("pools.tasks.rule = 'auto'", "pools.tasks.arms: is required"),
        ("pools.'a.b'.arms.c = 2", 'pools."a.b".arms.c: quota must be in [0, 1], got 2'),
        ("pools.'*'.arms.c = 2", 'pools."*".arms.c: quota must be in [0, 1], got 2'),
        ("pools.''.arms.c = 0", "pools.\"\": must have at least 1 character, got ''"),
        ("pools = 3", "pools: must be a table, got 3"),
        ("log = 3", "log: must be a table, got 3"),
        ("log.partitions = 0", "log.partitions: must be at least 1, got 0"),
        ("log.partitions = 1025", "log.partitions: must be at most 1024, got 1025"),
        ("log.partitions = '4'", "log.partitions: must be a valid integer, got '4'"),
        ("log.partitions = 4.0", "log.partitions: must be a valid integer, got 4.0"),
        ("log.partitions = true", "log.partitions: must be a valid integer, got True"),
        ("log.path = ''", "log.path: must name a file, got '.'"),
        ('log.path = "a\\u0000b"', "log.path: must name a file, got 'a\\x00b'"),
        (
            "log.kind = 'files'",
            "log.kind: must be 'sqlite', 'kafka' or 'confluent', got 'files'",
        ),
        ("service.poll_seconds = nan", "service.poll_seconds: must be a finite number, got nan"),
        (
            "service.poll_seconds = 2024-01-01",
            "service.poll_seconds: must be a valid number, got 2024-01-01",
        ),
        ("log.partitons = 4", "log.partitons: unknown key; the closest is log.partitions"),
        ("partitions = 4", "partitions: unknown key; the closest is log.partitions"),
        ("log.colour = 'red'", "log.colour: unknown key"),
        ("log.level = 'debug'", "log.level: unknown key; the closest is observe.log_level"),
        (
            "kafka.bootstrap_servers = 'one:9092, two'",
            "kafka.bootstrap_servers: must be host:port with commas between them, got 'two'",
        ),
        ("limit.record_bytes = 4", "limit: unknown key; the closest is limits"),
    ],
)
def test_a_problem_names_file_key_and_value(file: Path, text: str, expected: str) -> None:
    assert complaints(file, text) == [f"fair-allocator.toml: {expected}"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tolerance = -1", ".tolerance: tolerance must be at least 0, got -1"),
        ("tolerance = 'x'", ".tolerance: tolerance: expected a number such as"),
        ("tolerance = true", ".tolerance: tolerance: expected a number such as"),
        ("b.arms = {}", '.b: unknown key; if the pool\'s name is tasks.b, write pools."tasks.b"'),
        ("tolerence = 1", ".tolerence: unknown key; the closest is pools.tasks.tolerance"),
        ("reward_timeout = 0", ".reward_timeout: must be greater than 0, got 0"),
        ("default_reward = 2", ".default_reward: must be at most 1, got 2"),
        ("rule = 'fair'", ".rule: must be 'auto', 'max-deficit', 'earliest-deadline' or 'none'"),
        ("rule = 'max-deficit'", ": rule 'max-deficit' guarantees nothing here: 2 arms"),
        ("learner = 'ucb2'", ": learner 'ucb2' is not known; choose one of"),
        (
            "learner = {name = 'ucb1', z = 1}",
            ": learner 'ucb1': 'z' is not a parameter; it takes no parameters",
        ),
        ("learner = 5", ".learner: must be a name, or a table with name and parameters, got 5"),
        ("learner = {c = 5}", ".learner: must be a name, or a table with name and parameters, got"),
        ("learner = {name = 'ucb1', z = nan}", ".learner: parameters must be finite numbers"),
        ("learner = {name = 'ucb1', z = 2024-01-01}", ".learner: parameters must be finite"),
    ],
)
def test_a_pool_is_checked_by_making_it(file: Path, text: str, expected: str) -> None:
    pool = f"[pools.tasks]\narms = {{a = 0.6, b = 0.4}}\n{text}\n"
    assert complaint(file, pool).startswith(f"pools.tasks{expected}")


def test_a_pool_has_no_more_arms_than_the_limit(file: Path) -> None:
    text = "[limits]\narms_per_pool = 2\n[pools.tasks]\narms = {a = 0, b = 0, c = 0}\n"
    assert complaint(file, text) == (
        "pools: pool 'tasks' has 3 arms, more than limits.arms_per_pool, which is 2"
    )


def test_several_problems_are_listed_one_per_line(file: Path) -> None:
    text = "sed = 1\n[log]\npartitions = 0\n[pools.tasks.arms]\nann = 2\nbob = 3\n"
    assert complaints(file, text, LOG__PARTITIONER="md5", SEDE="1") == [
        "FAIR_ALLOCATOR_SEDE: unknown variable; the closest is FAIR_ALLOCATOR_SEED",
        "fair-allocator.toml: log.partitions: must be at least 1, got 0",
        "FAIR_ALLOCATOR_LOG__PARTITIONER: must be 'murmur2', 'crc32' or 'none', got 'md5'",
        "fair-allocator.toml: pools.tasks.arms.ann: quota must be in [0, 1], got 2",
        "fair-allocator.toml: pools.tasks.arms.bob: quota must be in [0, 1], got 3",
        "fair-allocator.toml: sed: unknown key; the closest is seed",
    ]


def test_a_flood_of_problems_and_a_long_value_are_cut(file: Path) -> None:
    lines = complaints(file, "[pools.a.arms]\n" + "".join(f"arm{i} = 2\n" for i in range(50)))
    assert len(lines) == 21
    assert lines[-1] == "and 30 more"
    assert len(complaint(file, f"[log]\nkind = '{'x' * 5000}'\n")) < 120


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("LOG__PARTITIONS", "0", "must be at least 1, got 0"),
        ("LOG__PARTITIONS", "many", "must be a valid integer, got 'many'"),
        ("LOG__PARTITIONS", "1\nseed = 2", r"must be a valid integer, got '1\nseed = 2'"),
        ("LOG__PARTITIONS", "[1]", "must be a valid integer, got a list"),
        ("SEED", "1.5", "must be a valid integer, got 1.5"),
        ("SEED", "9" * 5000, "must be a valid integer"),
        ("LOG__PATHS", "x", "unknown variable; the closest is FAIR_ALLOCATOR_LOG__PATH"),
        ("LOG_PATH", "x", "unknown variable; the closest is FAIR_ALLOCATOR_LOG__PATH"),
        ("OBSERVE__HOSTS", "[a, b]", "must be a valid tuple, got '[a, b]'"),
        ("POOLS__TASKS__RULE", "x", "pools are configured in the file, not by variables"),
    ],
)
def test_a_wrong_variable_is_named(name: str, value: str, expected: str) -> None:
    assert complaint(None, **{name: value}).startswith(f"FAIR_ALLOCATOR_{name}: {expected}")


def test_a_variable_cannot_mend_a_section_that_is_no_table(file: Path) -> None:
    assert complaint(file, "log = 3", LOG__PATH="x") == "log: must be a table, got 3"


@pytest.mark.parametrize("key", ["password", "client_secret", "api_token"])
def test_a_secret_is_never_shown(file: Path, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = complaints(file, f"[log]\n{key} = 'hunter2'\n", **{f"LOG__{key.upper()}": "hunter2"})
    assert "hunter2" not in "".join(unknown)

    fields: dict[str, Any] = {key: (int, 0)}
    with_secret = create_model("WithSecret", __base__=Configuration, **fields)
    monkeypatch.setattr(loading, "Configuration", with_secret)
    assert complaint(file, f"{key} = 'hunter2'") == (
        f"{key}: is not valid (its value is not shown)"
    )


def test_an_arm_called_token_is_no_secret(file: Path) -> None:
    assert complaint(file, "pools.a.arms.token = 2").endswith("got 2")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"seed = 1\nlog = = 2\n", "is not TOML: Invalid value (at line 2, column 7)"),
        (b"seed = 1\nseed = 2\n", "is not TOML: Cannot overwrite a value (at line 2, column 9)"),
        (b"seed = '\xff'", "is not UTF-8 text: byte 8 is 0xff"),
        (b"seed = " + b"9" * 5000, "is not TOML: "),
        (b"x = " + b"[" * 5000, "is not TOML: "),
    ],
)
def test_a_file_that_is_not_toml_is_refused(file: Path, content: bytes, expected: str) -> None:
    file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=re.escape(f"{file}: {expected}")):
        load(file, {})


def test_a_file_that_cannot_be_read_is_refused(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError, match=r"toml: cannot be read: No such file") as refusal:
        load(None, {"FAIR_ALLOCATOR_CONFIG": str(file)})
    assert refusal.value.exit_code == 78
    with pytest.raises(ConfigurationError, match=r"cannot be read: Is a directory"):
        load(tmp_path, {})

    def forbidden(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", forbidden)  # root may read everything
    with pytest.raises(ConfigurationError, match=r"toml: cannot be read: Permission denied"):
        load(file, {})


# -- fingerprints -------------------------------------------------------------------------------


def pool(**settings: Any) -> PoolConfiguration:
    return PoolConfiguration.model_validate({"arms": {"ann": "0.2", "bob": 0.25}} | settings)


@pytest.mark.parametrize(
    "same",
    [
        {"arms": {"bob": "1/4", "ann": 0.2}},
        {"tolerance": "0", "rule": "auto", "default_reward": None},
        {"learner": {"name": "ucb1"}},
    ],
)
def test_writing_a_pool_otherwise_keeps_its_fingerprint(same: dict[str, Any]) -> None:
    assert fingerprint(pool(**same)) == fingerprint(pool())


def test_every_change_of_content_changes_the_fingerprint() -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"arms": {"ann": "0.2", "bob": "0.2500001"}},
        {"arms": {"ann": "0.2", "bob": 0.25, "cyd": 0}},
        {"tolerance": 1},
        {"rule": "earliest-deadline"},
        {"reward_timeout": 60},
        {"default_reward": 0},
        {"reward_timeout": 60, "default_reward": 0},
    ]
    assert len({fingerprint(pool(**change)) for change in changes}) == len(changes)


def test_the_fingerprint_stays_the_same_between_versions() -> None:
    # It is kept in journals: another value would apply every file's pool again.
    assert fingerprint(pool()) == "9dbc65297ca1c70389f9d842d67da31a0a2319c1e2a5f843d244cc970e295517"


def test_a_pool_of_the_file_can_be_sent_as_a_control() -> None:
    settings = PoolSettings.model_validate(pool(reward_timeout=5).model_dump())
    assert settings.reward_timeout == 5
    # A control makes one pool; the parts of a pool of the file are several.
    assert PoolConfiguration.model_fields.keys() - {"parts"} == PoolSettings.model_fields.keys()


# -- in words -----------------------------------------------------------------------------------


def test_the_example_loads_as_it_is(file: Path) -> None:
    file.write_text(example())
    configuration = load(file, {})
    assert set(configuration.pools) == {"tasks", TEMPLATE}
    assert configuration.model_copy(update={"pools": {}}) == Configuration()


def test_the_example_shows_every_default(file: Path) -> None:
    file.write_text(re.sub(r"^# (\w+ = )", r"\1", example(), flags=re.M))
    shown = tomllib.loads(file.read_text())
    assert load(file, {}).model_copy(update={"pools": {}}) == Configuration()
    defaults = Configuration().model_dump(exclude={"pools"})
    assert shown.keys() == defaults.keys() | {"pools"}
    for section, values in defaults.items():
        if isinstance(values, dict):
            assert shown[section].keys() == values.keys()


def test_the_reference_has_a_row_for_every_setting() -> None:
    rows = [line for line in reference().splitlines() if line.startswith("| `")]
    assert all(row.count("|") == 5 for row in rows)
    assert len(rows) == len(known_settings())
    assert any(row.startswith("| `pools.NAME.arms` | table | required | ") for row in rows)
    assert any(row.startswith("| `log.partitions` | integer >= 1 and <= 1024 |") for row in rows)
    assert any('| number > 0 or `"none"` | `"none"` |' in row for row in rows)


def test_every_setting_is_described_in_one_sentence() -> None:
    for setting in known_settings():
        assert re.fullmatch(r"[A-Z].*\.", setting.description), setting.place


def test_guarantees_tell_what_each_pool_promises(file: Path) -> None:
    file.write_text(
        "[pools.low]\narms = {a = 0.2, b = '1/4', c = 0}\ntolerance = '5/2'\n"
        "[pools.full]\narms = {a = '1/3', b = '1/3', c = '1/3'}\n"
        "[pools.'*']\narms = {a = 0.5}\nrule = 'none'\n"
    )
    low, full, template = guarantees(load(file, {}))
    assert (low.name, low.arms, low.rule, low.bound) == ("low", 3, "max-deficit", 2)
    assert low.promised == pytest.approx(0.45)
    assert (low.learner, low.cost) == ("ucb1", "O(log k)")
    assert (full.rule, full.bound, full.promised) == ("earliest-deadline", 0, 1.0)
    assert (template.name, template.rule, template.bound) == ("*", "none", None)


def test_the_names_of_the_room_are_sorted() -> None:
    assert config.__all__ == sorted(config.__all__, key=str.lower)
    assert all(hasattr(config, name) for name in config.__all__)
