"""The effect log: what is in flight, what a kill met."""

from pathlib import Path

from iworkflow_lab.effects import Effect, EffectLog


def log_of(tmp_path: Path, *effects: Effect) -> EffectLog:
    log = EffectLog(tmp_path / "effects.jsonl")
    for effect in effects:
        log.append(effect)
    return log


def line(what: str, call: str, *, run: str = "r", worker: str = "1") -> Effect:
    return Effect(what, run=run, step="s", key=call, call=call, worker=worker)


def test_a_missing_log_is_empty(tmp_path: Path) -> None:
    """Before the first effect there is no file, and nothing in flight."""
    assert log_of(tmp_path).read() == []
    assert log_of(tmp_path).in_flight() == []


def test_what_ended_or_was_cancelled_is_not_in_flight(tmp_path: Path) -> None:
    """In flight is what began and neither ended nor was cancelled."""
    begun = [line("begin", call) for call in "abc"]
    log = log_of(tmp_path, *begun, line("end", "a"), line("cancel", "b"))
    assert [effect.call for effect in log.in_flight("r")] == ["c"]


def test_a_kill_ends_what_its_worker_had_in_flight(tmp_path: Path) -> None:
    """Another worker's steps, and what begins later, are in flight still."""
    log = log_of(
        tmp_path,
        line("begin", "a", worker="1"),
        line("begin", "b", worker="2"),
        Effect("kill", worker="1"),
        line("begin", "c", worker="3"),
    )
    assert [effect.call for effect in log.in_flight("r")] == ["b", "c"]


def test_a_kill_of_one_run_leaves_others_alone(tmp_path: Path) -> None:
    """Where workers share a process, a kill says which runs it met."""
    log = log_of(
        tmp_path,
        line("begin", "a", run="r"),
        line("begin", "b", run="q"),
        Effect("kill", run="r", worker="1"),
    )
    assert [effect.call for effect in log.in_flight()] == ["b"]
    assert log.in_flight("r") == []


def test_at_kill_looks_at_the_last_one(tmp_path: Path) -> None:
    """What ended and what was in flight is told as of the last kill, not as of now."""
    log = log_of(
        tmp_path,
        line("begin", "a"),
        line("begin", "b"),
        line("end", "a"),
        Effect("kill", worker="1"),
        line("begin", "c"),
        line("end", "c"),
    )
    ended, in_flight = log.at_kill("r")
    assert [effect.call for effect in ended] == ["a"]
    assert [effect.call for effect in in_flight] == ["b"]


def test_a_log_is_read_on_and_never_by_half_a_line(tmp_path: Path) -> None:
    """A second reading sees what was added, and leaves a line alone that is not whole yet."""
    path = tmp_path / "effects.jsonl"
    log = EffectLog(path)
    EffectLog(path).append(line("begin", "a"))
    assert len(log.read()) == 1
    with path.open("a") as file:
        file.write('{"what": "begin", ')
        file.flush()
        assert len(log.read()) == 1
        file.write('"call": "b"}\n')
    assert [effect.call for effect in log.read()] == ["a", "b"]
