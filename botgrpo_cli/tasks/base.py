"""What a task is: its part of a recipe, prompts in, scored rollouts out. Nothing else is known of a task anywhere.

A task is a class that derives from `Task`. It lives in this package, in an installed one (entry point `botgrpo.tasks`)
or in a person's own file (`task: {name: ./mine.py}`); see `registry.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from botgrpo_cli.errors import InputError
from botgrpo_cli.recipe.section import RewardSection, TaskSection

if TYPE_CHECKING:
    from botgrpo_cli.judges.base import Judge, Reply
    from botgrpo_cli.recipe.schema import Recipe
    from botgrpo_cli.tasks.needs import Finding, Part
    from botgrpo_cli.winrate.contender import Comparison

UNSCORED = "unscored"  # in `Scored.detail`: sentences that say why a rollout could not be scored
Split = Literal["train", "held-out"]
SPLITS: tuple[Split, ...] = ("train", "held-out")
Say = Callable[[str], None]
Message = Mapping[str, str]  # "role" and "content", as chat templates take them
# The keys that don't go together, dotted, the one to change first; the sentence.
Clash = tuple[tuple[str, ...], str]


@dataclass(frozen=True)
class Prompt:
    """One task item. `id` is stable across runs and unique over both splits."""

    id: str
    text: str  # the user message, complete; of a chat its last one
    level: str  # graded difficulty: easy | medium | hard
    asks: tuple[str, ...] = ()  # content that can be looked for in the answer, task-defined
    chat: tuple[Message, ...] = field(default=(), hash=False)  # the whole chat; empty where `text` is all of it
    columns: Mapping[str, Any] = field(default_factory=dict, hash=False)  # the row of an own task's data

    @property
    def messages(self) -> list[dict[str, str]]:
        """What the policy answers, for a chat template."""
        return [dict(message) for message in self.chat] or [{"role": "user", "content": self.text}]


@dataclass(frozen=True)
class Completion:
    """One rollout as the sampler left it. The ids are the truth; text is only ever derived from `pieces`."""

    prompt: Prompt
    pieces: tuple[bytes, ...]  # bytes of every generated id in order, b"" for special tokens such as EOS
    finished: bool  # stopped on an end token; False means truncated
    ids: tuple[int, ...] = ()  # of the policy's tokenizer; empty where nobody sampled (a file of completions)

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", errors="replace")


@dataclass(frozen=True)
class Attachment:
    """A file of a rollout, as a value of `Scored.detail`: the run's writer keeps it in a folder beside samples.jsonl,
    and the row names it. Those of rollouts that are not kept are dropped."""

    data: bytes
    folder: str
    suffix: str  # with its point


@dataclass
class Scored:
    """What a task says of one rollout.

    `reward` is the weighted sum of `terms`; NaN when the rollout could not be scored (it then leaves its
    group's statistics). `local[t]` is the token-level signal of token t, bounded in [-1, 1]; the tasks of this package
    blame only, in [-1, 0]. A constant added to all of it changes no advantage that is taken against the bag.
    """

    reward: float
    local: list[float]  # [T], T = len(completion.pieces)
    terms: dict[str, float]  # before their weights; in [0, 1] unless the task says otherwise
    metrics: dict[str, float]  # facts to average, for example {"compile_rate": 1.0}
    detail: dict[str, Any] = field(default_factory=dict)  # for samples.jsonl: code, diagnostics, line penalties
    steps: list[int] | None = None  # [T] step of each token, from left to right (a line, a step); None: one step


class Task(ABC):
    """A task. What is said of the class alone is asked before anything starts; an instance has its tools running.

    The least a task needs: `name`, `headline`, `prompts` and `submit`. Everything else has a default.

    >>> class Echo(Task):
    ...     name, headline = "echo", "right"
    ...     def prompts(self, split):
    ...         return [Prompt(f"{split}-{n}", f"Say {n}.", "easy") for n in range(4)]
    ...     def submit(self, completion):
    ...         right = float(completion.text.strip() in completion.prompt.text)
    ...         scored = Scored(right, [0.0] * len(completion.pieces), {"right": right}, {"right": right})
    ...         future = Future()
    ...         future.set_result(scored)
    ...         return future
    """

    # -- its part of a recipe --------------------------------------------------------------------------------------
    name: ClassVar[str]
    """As `task.name` and the column `task` of metrics.csv have it; of a file, the file's name without its suffix."""
    keys: ClassVar[type[TaskSection]] = TaskSection
    """The `task:` section: a pydantic class; the docstring of an attribute is its help."""
    rewards: ClassVar[type[RewardSection]] = RewardSection
    """The `reward:` section."""
    free_keys: ClassVar[tuple[str, ...]] = ()
    """Keys of `task:` that change no number (processes, say), so that a run may be resumed with others."""
    prompt_keys: ClassVar[tuple[str, ...]] = ("*",)
    """Keys of `task:` that say which prompts there are: arms of a study must agree in them. "*": in all of it."""

    @classmethod
    def clashes(cls, recipe: Recipe) -> Iterator[Clash]:
        """What the keys of a recipe say together and can't mean. Starts nothing, reads no data."""
        yield from ()

    @classmethod
    def prompt_set(cls, recipe: Recipe) -> tuple[str, str]:
        """For messages: the key that names the prompts, and their name."""
        return "task.name", cls.name

    @classmethod
    def counts(cls, recipe: Recipe) -> tuple[int, int] | None:
        """How many prompts there are for training and held out; None where data would have to be loaded for that."""
        return None

    @classmethod  # noqa: B027 - a task may lack nothing
    def require(cls, recipe: Recipe) -> None:
        """Raises InputError for what will be lacking, as far as that is known without starting anything: said before a
        policy is loaded for minutes."""

    @classmethod
    def for_evaluation(cls, recipe: Recipe) -> Recipe:
        """The recipe without what only training needs, so that `evaluate` asks no judge for nothing."""
        return recipe

    # -- what it measures ------------------------------------------------------------------------------------------
    headline: ClassVar[str]
    """The metric that people watch, for example "compile_rate"; an instance may have its own."""
    rehearsed: ClassVar[bool] = False
    """Whether a run scores one completion a split before it starts: for what a person wrote and nobody tested."""
    pass_at: ClassVar[tuple[int, ...]] = ()
    """The k of Pass@k that `evaluate` prints without being asked."""

    @classmethod
    def metrics(cls, recipe: Recipe) -> tuple[str, ...] | None:
        """The held-out metrics that it logs with this recipe; None where that is not known before a run."""
        return None

    @classmethod
    def why_not(cls, recipe: Recipe, metric: str) -> str:
        """Why a metric of the task has no value with this recipe, and which key would give it one; "" when it has."""
        return ""

    # -- what it needs ---------------------------------------------------------------------------------------------
    @classmethod
    def needs(cls, recipe: Recipe) -> Iterator[str]:
        """What must be there beside the package, in words: "Node", "a judge (openai)"."""
        yield from ()

    @classmethod
    def asks(cls, recipe: Recipe) -> dict[str, int]:
        """The most calls of the recipe's judge that a completion takes, by the key that asks for them."""
        return {}

    @classmethod
    def asks_held_out(cls, recipe: Recipe) -> bool:
        """Whether completions of evaluations are judged too."""
        return True

    @classmethod
    def sample(cls, judge: Judge) -> tuple[Reply, str]:
        """One call of a judge, for `botgrpo setup judge`: the reply, and what it says in words ("": nothing of use)."""
        from botgrpo_cli.judges.base import Ask

        answer = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
        ask = Ask("You answer with one JSON object.", ('What is 2 + 2? Answer as {"sum": N}.',), answer, "sample/1")
        reply = judge.ask(ask)
        return reply, f"2 + 2 is {reply.value['sum']}" if reply.outcome == "ok" and reply.value else ""

    @classmethod
    def findings(cls) -> Iterator[Finding]:
        """Rows of `botgrpo doctor`."""
        yield from ()

    @classmethod
    def parts(cls) -> Iterator[Part]:
        """What `botgrpo setup` can fetch for it."""
        yield from ()

    # -- what it reads and writes ----------------------------------------------------------------------------------
    answer_columns: ClassVar[tuple[str, ...]] = ()
    """Columns of a file of completions that hold the right answer: with one and the text of a prompt, a row brings its
    own prompt (`own_prompt`)."""

    @classmethod
    def own_prompt(cls, text: str, answer: str) -> Prompt:
        """The prompt of such a row. Raises ValueError with a sentence when it is none."""
        raise ValueError("the task takes no prompts of a file")

    @classmethod
    def same_text(cls, text: str) -> str:
        """A key that is the same for two ways of writing the same prompt."""
        return " ".join(text.split())

    @classmethod
    def files(cls, recipe: Recipe) -> dict[str, Path]:
        """Files that it reads, by the key that names each: `export verl` takes copies of them."""
        return {}

    # -- how two answers are compared ------------------------------------------------------------------------------
    @classmethod
    def comparison(cls, recipe: Recipe) -> Comparison:
        """How `winrate` compares two answers. Raises InputError, saying what to do instead, when they can't be."""
        raise InputError(
            f"Answers of the task '{cls.name}' can't be compared pair by pair. `botgrpo evaluate` gives rates and "
            "Pass@k with intervals for it."
        )

    # -- an instance -----------------------------------------------------------------------------------------------
    @classmethod
    def start(cls, recipe: Recipe, say: Say) -> Self:
        """The task with its tools started; `say` hears of long set-up work. Raises InputError when one is missing."""
        return cls()

    @abstractmethod
    def prompts(self, split: Split) -> Sequence[Prompt]: ...

    @abstractmethod
    def submit(self, completion: Completion) -> Future[Scored]:
        """Scoring is asynchronous so that it overlaps with sampling: this returns at once."""

    def gathered(self, step: int | None = None) -> None:  # noqa: B027 - most tasks score each completion alone
        """All completions of a batch are submitted: what scores them together can begin. `step` counts the training
        steps from 1; None: the batch is of no training step."""

    def versions(self) -> dict[str, str]:
        """Tool versions for the manifest."""
        return {}

    def counters(self) -> dict[str, float | None]:
        """What scoring used since the last call, to log with a step: calls of a judge, their outcomes, their time."""
        return {}

    def provenance(self) -> dict[str, Any]:
        """For the manifest: `heuristic` and `simulated`, lists of what is no real measurement, and `judge`, if any."""
        return {"heuristic": [], "simulated": []}

    def close(self) -> None:  # noqa: B027 - a task may hold nothing open
        """Ends its tools; samples still waiting raise RunError. Safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
