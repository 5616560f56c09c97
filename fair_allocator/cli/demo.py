"""`demo`: send the requests of a simulated world to the real service, and show the outcome."""

import argparse
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from threading import current_thread, main_thread
from typing import Final

from rich.console import Console

from fair_allocator.cli.options import (
    BadUsage,
    Subparsers,
    add_command,
    add_config,
    at_least,
    configuration_of,
    picture,
)
from fair_allocator.demo import plot
from fair_allocator.demo.feed import Feed
from fair_allocator.demo.load import Load
from fair_allocator.demo.play import Play, audited
from fair_allocator.demo.scenarios import SCENARIOS
from fair_allocator.demo.serve import configured, serving
from fair_allocator.demo.story import told
from fair_allocator.demo.view import view_for
from fair_allocator.log.base import LogClient
from fair_allocator.wiring import open_client

SECONDS: Final = 20
"""How long a demo takes by default."""

REQUESTS: Final = {"crowd": 8_000, "wireless": 8_000, "plain": 40_000}
SEED: Final = 9
LOAD_RATE: Final = 200.0


def add(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "demo",
        "watch the service at work, beside another allocator",
        "Runs the service in a separate process on a log file, and sends it the requests of a\n"
        "simulated world. Shows beside it what LFG (in the plain world: UCB1 without quotas)\n"
        "would have done with the same requests. Ends by itself or on Ctrl-C with the verdict of\n"
        "the audit. Exits 1 if a guarantee was broken.",
        "demo --scenario wireless --fast",
        run,
    )
    option = parser.add_argument
    option(
        "--scenario",
        choices=SCENARIOS,
        help="which world to play: workers with skills, shifts and declines (crowd, the "
        "default), users of a cell (wireless), or workers who can take any task "
        "(plain, the default with --load-only)",
    )
    option("--requests", type=at_least(1), metavar="N", help="how many requests to play")
    option("--seed", type=int, default=SEED, help=f"determines the world; {SEED} unless given")
    option(
        "--rate",
        type=_rate,
        metavar="R",
        help=f"requests per second (default: so that it takes {SECONDS} seconds)",
    )
    option("--fast", action="store_true", help="play as fast as possible")
    option("--log", type=Path, metavar="PATH", help="write the log to this new file, and keep it")
    option(
        "--keep",
        action="store_true",
        help="keep the log even without --log, and print its path",
    )
    option("--plot", type=picture, metavar="PATH", help="where to draw the picture, .png or .svg")
    option("--no-plot", action="store_true", help="draw nothing")
    option(
        "--load-only",
        action="store_true",
        help="only feed the log of --log or --config, which a service elsewhere reads: "
        f"{LOAD_RATE:.0f} requests a second until --requests or Ctrl-C",
    )
    add_config(parser)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not (rate > 0 and isfinite(rate)):
        raise argparse.ArgumentTypeError(f"must be a number above 0, got {text!r}")
    return rate


def run(arguments: argparse.Namespace) -> int:
    """Play the demo, or feed a log; return the exit status."""
    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    if arguments.load_only:
        return _feed(arguments, console)
    if arguments.log is not None and arguments.log.exists():
        raise BadUsage(f"{arguments.log} is there already: name a new file, or use --load-only")
    return _play(arguments, console)


# -- the demo ---------------------------------------------------------------------------------


def _play(arguments: argparse.Namespace, console: Console) -> int:
    scenario, seed = arguments.scenario or "crowd", arguments.seed
    requests = arguments.requests or REQUESTS[scenario]
    world = SCENARIOS[scenario](seed, requests)
    rate = arguments.rate or REQUESTS[scenario] / SECONDS
    pace = 0.0 if arguments.fast else 1 / rate
    with ExitStack() as stack:
        stop = stack.enter_context(_stop_on_signal())
        log = _place(arguments, stack)
        service = stack.enter_context(serving(log, seed, world, requests))
        client = stack.enter_context(open_client(configured(log, seed), create=True))
        play = Play(client, world, requests, seed, service.check)
        console.print(world.scene + "\n")
        if service.page:
            console.print(f"Watch it live, while it runs: {service.page}\n")
        with console.status("starting the service"):
            play.open()
        with view_for(console) as view:
            while play.left and not stop.asked:
                play.step()
                view.show(play)
                ahead = play.load.sent * pace - play.seconds
                if ahead > 0 and play.left:
                    time.sleep(ahead)
            play.settle()
            view.show(play)
        took = play.seconds
        with console.status("the audit reads the log from the start"):
            report = audited(client)
    console.print()
    if stop.asked:
        console.print("Stopped early; this is the verdict so far.\n")
    verdict, *story = told(play, report)
    console.print(verdict + "\n", style="bold")
    for paragraph in story:
        console.print(paragraph + "\n")
    _draw(arguments, play, console)
    if arguments.keep or arguments.log:
        console.print(f"Log: {log} (FAIR_ALLOCATOR_LOG__PATH={log} fair-allocator audit)")
    console.print(f"{play.load.answered:,} {world.words.request}s in {took:.1f} seconds.")
    return 0 if report.ok else 1


def _place(arguments: argparse.Namespace, stack: ExitStack) -> Path:
    """Return the path of the log. The stack removes a temporary log, unless it is to be kept."""
    if arguments.log is not None:
        return Path(arguments.log)
    prefix = "fair-allocator-demo-"
    if arguments.keep:
        return Path(mkdtemp(prefix=prefix), "demo.db")
    return Path(stack.enter_context(TemporaryDirectory(prefix=prefix)), "demo.db")


def _draw(arguments: argparse.Namespace, play: Play, console: Console) -> None:
    if arguments.no_plot or not play.ours.rounds:
        return
    path = arguments.plot or Path("out", f"demo-{play.world.name}.png")
    try:
        with console.status("drawing"):
            plot.draw(play, path)
    except ImportError:
        console.print("No plot: matplotlib is missing (pip install 'fair-allocator[plots]').")
    except OSError as error:
        console.print(f"No plot: {path} cannot be written: {error.strerror}")
    else:
        console.print(f"Plot: {path}")


# -- the load alone ---------------------------------------------------------------------------


def _feed(arguments: argparse.Namespace, console: Console) -> int:
    scenario = arguments.scenario or "plain"
    world = SCENARIOS[scenario](arguments.seed, arguments.requests or REQUESTS[scenario])
    with _client(arguments) as client, _stop_on_signal() as stop:
        Feed(
            Load(client, world),
            arguments.rate or LOAD_RATE,
            arguments.requests,
            lambda: stop.asked,
            console.print,
        ).run()
    return 0


def _client(arguments: argparse.Namespace) -> LogClient:
    configuration = configuration_of(arguments)
    if arguments.log is not None:
        log = configuration.log.model_copy(update={"path": arguments.log})
        configuration = configuration.model_copy(update={"log": log})
    return open_client(configuration)


# -- signals ----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Stop:
    asked: bool = False


@contextmanager
def _stop_on_signal() -> Iterator[_Stop]:
    """Let Ctrl-C or SIGTERM end the demo after its current step.

    A second signal ends it at once.
    """
    stop = _Stop()

    def ask(_number: int, _frame: object) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True

    # Only the main thread may install handlers. If the demo runs on another thread, the creator of
    # the thread stops it.
    numbers = (signal.SIGINT, signal.SIGTERM) if current_thread() is main_thread() else ()
    before = {number: signal.signal(number, ask) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
