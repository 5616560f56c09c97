"""The subcommands of `send` for a single event: their options, and the event made from them."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from fair_allocator.cli.options import (
    BadUsage,
    Subparsers,
    add_assignment,
    add_command,
    add_config,
    add_json,
)

Run = Callable[[argparse.Namespace], int]

_POOL_ACTIONS: Final = ("remove", "pause", "resume")
_NAMED_ACTIONS: Final = ("remove-arm", "sleep", "wake")


def add_events(kinds: Subparsers, run: Run) -> None:
    """Declare a command for each kind of event; `run` sends the event from `arguments.event`."""
    _add_request(kinds, run)
    _add_reward(kinds, run)
    _add_decline(kinds, run)
    _add_control(kinds, run)


def add_common(parser: argparse.ArgumentParser, topic: str) -> None:
    """Declare the options that all subcommands have."""
    add_config(parser)
    add_json(parser)
    parser.add_argument(
        "--partition",
        type=int,
        metavar="N",
        help='the partition to send to, if log.partitioner is "none"',
    )
    parser.add_argument(
        "--create", action="store_true", help="create the embedded log if it does not exist"
    )
    parser.set_defaults(topic=topic, sign_with=None)
    if topic == "controls":
        parser.add_argument(
            "--sign-with",
            type=Path,
            metavar="FILE",
            help="sign with the private key in this file; controls.keys must list its public key",
        )


def _add_request(kinds: Subparsers, run: Run) -> None:
    parser = add_command(
        kinds,
        "request",
        "ask a pool for an arm",
        "Sends one request.",
        "send request --pool tasks --id r1 --eligible ann bob --slots 2",
        run,
    )
    parser.add_argument("--pool", required=True, metavar="NAME", help="the pool's name")
    parser.add_argument(
        "--id", dest="request_id", metavar="ID", help="the request's id (a new one if left out)"
    )
    who = parser.add_mutually_exclusive_group()
    who.add_argument(
        "--eligible", nargs="+", metavar="ARM", help="the arms that can take the request"
    )
    who.add_argument("--needs", metavar="TAGS", help='tags an arm must have: "french & !trainee"')
    parser.add_argument("--slots", type=int, metavar="N", help="how many arms the request wants")
    add_common(parser, "requests")
    parser.set_defaults(event=_request)


def _request(arguments: argparse.Namespace) -> dict[str, Any]:
    wanted = {
        "eligible": arguments.eligible,
        "needs": arguments.needs,
        "slots": arguments.slots,
    }
    return {"request_id": arguments.request_id or uuid4().hex, **_said(wanted)}


def _add_reward(kinds: Subparsers, run: Run) -> None:
    parser = add_command(
        kinds,
        "reward",
        "tell how well an assignment went",
        "Sends one reward.",
        "send reward --pool tasks --id r1 --value 0.8",
        run,
    )
    add_assignment(parser)
    parser.add_argument(
        "--value", required=True, type=float, metavar="NUMBER", help="the reward, in [0, 1]"
    )
    add_common(parser, "rewards")
    parser.set_defaults(
        event=lambda arguments: {**_assignment(arguments), "value": arguments.value}
    )


def _add_decline(kinds: Subparsers, run: Run) -> None:
    parser = add_command(
        kinds,
        "decline",
        "tell that an arm does not take its assignment",
        "Sends one decline. If the pool reassigns requests, the request is decided again.",
        "send decline --pool tasks --id r1 --arm ann",
        run,
    )
    add_assignment(parser)
    add_common(parser, "rewards")
    parser.set_defaults(event=lambda arguments: {"type": "declined", **_assignment(arguments)})


def _assignment(arguments: argparse.Namespace) -> dict[str, Any]:
    return {"request_id": arguments.request_id, **_said({"arm": arguments.arm})}


def _add_control(kinds: Subparsers, run: Run) -> None:
    parser = add_command(
        kinds,
        "control",
        "change a pool or some of its arms",
        "Sends one control. With configure, name all arms of the pool, or no arm to keep the\n"
        "present arms. With set-arm, name the arms to add or change; all others stay as they are,\n"
        "such as --action set-arm --arm eve=0.1 --tag latin. With sleep and wake, name arms\n"
        "without a quota.",
        "send control --pool tasks --action configure --arm ann=0.2 --arm bob=1/4 --tolerance 1",
        run,
    )
    parser.add_argument("--pool", required=True, metavar="NAME", help="the pool's name")
    parser.add_argument(
        "--action",
        required=True,
        choices=("configure", *_POOL_ACTIONS, "set-arm", *_NAMED_ACTIONS),
    )
    parser.add_argument(
        "--arm",
        action="append",
        metavar="NAME[=QUOTA]",
        help="an arm with its quota, such as bob=1/4, or only its name; can be repeated",
    )
    parser.add_argument("--by", metavar="NAME", help="who sends this control, shown by `history`")
    arms = parser.add_argument_group("settings of the arms that set-arm names")
    arms.add_argument(
        "--cap", metavar="SHARE", help='the largest share that the arm may get, or "none"'
    )
    arms.add_argument(
        "--tag", action="append", metavar="TAG", help="a tag of the arm; can be repeated"
    )
    either = parser.add_argument_group("settings of a pool or of the arms that set-arm names")
    either.add_argument(
        "--max-open", metavar="N", help='how many open assignments an arm may have, or "none"'
    )
    pool = parser.add_argument_group("settings of a pool")
    pool.add_argument("--tolerance", metavar="PULLS", help="how many pulls an arm may fall short")
    pool.add_argument(
        "--rule",
        choices=("auto", "max-deficit", "earliest-deadline", "none"),
        help="the rule that keeps the promise",
    )
    pool.add_argument("--learner", metavar="NAME", help="the learner that fills the free rounds")
    pool.add_argument(
        "--learner-parameter",
        action="append",
        type=_parameter,
        metavar="KEY=NUMBER",
        help="a parameter of the learner; can be repeated",
    )
    pool.add_argument(
        "--requests", choices=("plain", "any"), help="whether requests may name arms and slots"
    )
    pool.add_argument(
        "--bank", type=int, metavar="PULLS", help="how many pulls in advance still count"
    )
    pool.add_argument(
        "--reward-timeout", type=float, metavar="SECONDS", help="how long a reward may take"
    )
    pool.add_argument(
        "--default-reward",
        type=float,
        metavar="NUMBER",
        help="the reward that counts after the timeout",
    )
    pool.add_argument(
        "--when-busy", choices=("wait", "refuse"), help="what happens if no arm can take a request"
    )
    pool.add_argument(
        "--wait-timeout", type=float, metavar="SECONDS", help="how long a request may wait"
    )
    pool.add_argument(
        "--reassign",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="give a request to another arm if one declines it or lets its time run out",
    )
    pool.add_argument(
        "--rate", type=int, metavar="REQUESTS", help="how many requests the pool takes in a second"
    )
    pool.add_argument("--burst", type=int, metavar="REQUESTS", help="how many it takes at once")
    add_common(parser, "controls")
    parser.set_defaults(event=lambda arguments: {**_control(arguments), **_by(arguments)})


def _said(settings: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if value is not None}


def _parameter(text: str) -> tuple[str, float]:
    name, _, number = text.partition("=")
    try:
        return name, float(number)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=NUMBER") from None


def _limit(text: str | None) -> Any:
    """Return the value of an option as an event has it. The text "none" removes the limit."""
    if text is None or text == "none":
        return None
    return int(text) if text.isdigit() else text


def _by(arguments: argparse.Namespace) -> dict[str, Any]:
    return _said({"by": arguments.by})


def _control(arguments: argparse.Namespace) -> dict[str, Any]:
    action, named = arguments.action, arguments.arm or []
    names = [text.rpartition("=")[0] or text for text in named]
    if len(set(names)) < len(names):
        raise BadUsage("an arm is named twice")
    settings = _pool_settings(arguments)
    of_arms = _arm_settings(arguments)
    if action == "configure":
        if arguments.cap is not None or arguments.tag:
            raise BadUsage("--cap and --tag are for --action set-arm")
        arms = dict(map(_with_quota, named)) if named else None
        if arguments.max_open is not None:
            settings["max_open"] = _limit(arguments.max_open)
        return {"action": action, **_said({"arms": arms}), **settings}
    if settings:
        raise BadUsage(f"--action {action} takes no settings of a pool, only configure does")
    if action == "set-arm":
        if not named:
            raise BadUsage("--action set-arm needs --arm")
        quotas = [_with_quota(text) if "=" in text else (text, None) for text in named]
        return {
            "action": action,
            "arms": {arm: {**_said({"quota": quota}), **of_arms} for arm, quota in quotas},
        }
    if of_arms:
        raise BadUsage(f"--action {action} takes no settings of arms, only set-arm does")
    if action in _NAMED_ACTIONS:
        if not named:
            raise BadUsage(f"--action {action} needs --arm")
        return {"action": action, "arms": named}
    if named:
        raise BadUsage(f"--action {action} takes no --arm")
    return {"action": action}


def _with_quota(text: str) -> tuple[str, str]:
    name, equals, quota = text.rpartition("=")
    if not equals:
        raise BadUsage(f"--arm {text!r} is not NAME=QUOTA, such as bob=1/4")
    return name, quota


def _arm_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if arguments.cap is not None:
        settings["cap"] = None if arguments.cap == "none" else arguments.cap
    if arguments.max_open is not None:
        settings["max_open"] = _limit(arguments.max_open)
    if arguments.tag:
        settings["tags"] = arguments.tag
    return settings


def _pool_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    learner = arguments.learner
    if arguments.learner_parameter:
        if learner is None:
            raise BadUsage("--learner-parameter needs --learner")
        learner = {"name": learner, **dict(arguments.learner_parameter)}
    return _said(
        {
            "tolerance": arguments.tolerance,
            "rule": arguments.rule,
            "learner": learner,
            "requests": arguments.requests,
            "bank": arguments.bank,
            "reward_timeout": arguments.reward_timeout,
            "default_reward": arguments.default_reward,
            "when_busy": arguments.when_busy,
            "wait_timeout": arguments.wait_timeout,
            "reassign": arguments.reassign,
            "rate": arguments.rate,
            "burst": arguments.burst,
        }
    )
