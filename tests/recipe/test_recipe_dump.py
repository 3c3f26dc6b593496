"""A resolved recipe loads again to an equal one, whatever is in it."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from botgrpo_cli.recipe.load import dump_recipe, load_recipe
from botgrpo_cli.recipe.schema import LoraConfig, MethodConfig, PolicyConfig, Recipe, SamplingConfig
from botgrpo_cli.tasks.react.keys import TaskConfig
from tests.recipe.helpers import load, problems_of, write
from tests.recipes import ReactRecipe

texts = st.one_of(
    st.text(max_size=80),
    st.sampled_from(
        ["", "no", "null", "~", "1e-6", "017", "<<", "a: b", "# c", " x", "x\n", "\n", "a\n\n b\n", "\x85", "é😀"]
    ),
    st.text(alphabet=" \n\t:#'\"\\{}[]-é\u2028\x85\ufeff\x00\r", max_size=20),
)
numbers = st.floats(min_value=0, max_value=1, exclude_min=True, allow_nan=False)


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    lora = draw(st.none() | st.builds(LoraConfig, alpha=numbers, targets=st.lists(texts, min_size=1, max_size=3)))
    tau = draw(st.floats(min_value=0, max_value=5, exclude_min=True))
    return ReactRecipe(
        name=draw(texts),
        scale=draw(st.sampled_from(["paper", "small", "tiny"])),
        task=TaskConfig(instruction=draw(texts) + "{brief}" + draw(texts)),
        policy=PolicyConfig(model=draw(texts), lora=lora, gradient_checkpointing=draw(st.booleans())),
        method=MethodConfig(
            clip_low=draw(st.none() | st.floats(1e-12, 0.999)), ratio=draw(st.sampled_from([None, "token"]))
        ),
        sampling=SamplingConfig(prompts=2 * draw(st.integers(1, 10**12)), temperature=tau),
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(recipe=recipes())
def test_round_trip(tmp_path, recipe):
    # prompts is even, so that micro_batch 16 divides prompts x 8; the counts are those of any task that has enough
    text = dump_recipe(recipe)
    path = tmp_path / "recipe.yaml"
    path.write_bytes(text.encode())
    again = load_recipe(str(path), counts=lambda recipe: (10**15, 10**15))
    assert again.recipe == recipe
    assert dump_recipe(again.recipe) == text


def test_comments_change_nothing(tmp_path):
    loaded = load("react_qwen", scale="small")
    text = dump_recipe(loaded.recipe, sources=loaded.sources)
    assert "  # Updates; each samples prompts x group_size fresh rollouts.\n  # from " in text
    assert load(write(tmp_path, text)).recipe == loaded.recipe


def test_a_resolved_recipe_takes_no_overlay_and_stays_at_its_scale(tmp_path):
    loaded = load("react_qwen", scale="tiny", sets=["policy.dtype=bfloat16", "task.workers=1"])
    path = write(tmp_path, dump_recipe(loaded.recipe))
    assert load(path).recipe == loaded.recipe  # scales/tiny.yaml says float32
    assert load(path, scale="tiny").recipe == loaded.recipe
    assert load(path, steps=3).recipe.training.steps == 3
    (line,) = problems_of(path, scale="small")
    assert line.startswith("--scale: scale: Found small, but ")
    assert "is resolved at tiny; expected tiny" in line
    (line,) = problems_of(write(tmp_path, f"extends: {path}\nscale: paper", "child.yaml"))
    assert line.startswith("child.yaml:2: scale: Found paper")
