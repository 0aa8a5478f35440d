"""Retrieval: texts with needles, readers whose score is known, and whole runs."""

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

transformers = pytest.importorskip("transformers", minversion="5.20")

from support.checkpoints import restate, save_llama  # noqa: E402
from support.language_models import GROUPED, WIDER  # noqa: E402

from posenc_compare import hf  # noqa: E402
from posenc_compare.errors import ConfigError, CorpusError  # noqa: E402
from posenc_compare.hf import planned  # noqa: E402
from posenc_compare.hf.apply import apply  # noqa: E402
from posenc_compare.hf.needles import (  # noqa: E402
    KINDS,
    Haystack,
    Needle,
    choice,
    encoded,
    haystack,
)
from posenc_compare.hf.recommend import target  # noqa: E402
from posenc_compare.hf.retrieval import Reading, filler_of  # noqa: E402
from posenc_compare.records.load import load_records  # noqa: E402
from posenc_compare.records.record import Record  # noqa: E402
from posenc_compare.records.store import Store  # noqa: E402
from posenc_compare.run.compute import compute  # noqa: E402
from posenc_compare.settings.retrieval import DEPTHS  # noqa: E402
from posenc_compare.tasks.corpus import load_corpus  # noqa: E402
from posenc_compare.train.progress import Progress  # noqa: E402

TRAINED = 1024
FILLER = "".join(f"{n} sheep and {n * n % 97} goats went by.\n" for n in range(900))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a small Llama and a tokenizer of bytes."""
    return save_llama(tmp_path_factory.mktemp("tiny"), TRAINED)


@pytest.fixture(scope="module")
def tokenizer(place: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(place)


@pytest.fixture(scope="module")
def made(tokenizer: Any) -> Haystack:
    return haystack(FILLER, tokenizer, 2048, 1, seed=0)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(f"{n * n % 97} and {n}\n" for n in range(60_000)))
    return str(path)


def score(made: Haystack, read: Any) -> float:
    """Return the share of needles that a reader finds."""
    return float(np.mean([choice(n, read) == n.answer for n in made.needles]))


def after(text: list[int], end: list[int]) -> list[int]:
    """Return the tokens of a text that stand behind some others."""
    size = len(end)
    starts = range(len(text) - size)
    return [text[i + size] for i in starts if text[i : i + size] == end]


def test_a_reader_that_looks_every_question_up_finds_all(made: Haystack) -> None:
    text = made.tokens.tolist()

    def read(tokens: Tensor) -> Tensor:
        logits = torch.zeros(256)
        logits[after(text, tokens.tolist())] = 1.0
        return logits

    assert score(made, read) == 1.0


@pytest.mark.parametrize("needles", [1, 2])
def test_a_reader_without_the_key_finds_a_share_of_chance(
    tokenizer: Any, needles: int
) -> None:
    made = haystack(FILLER, tokenizer, 2048, needles, seed=1)
    chance = 1 / (DEPTHS * needles)
    assert score(made, lambda tokens: torch.zeros(256)) == pytest.approx(chance)
    by_token = torch.randn(256, generator=torch.Generator().manual_seed(0))
    assert score(made, lambda tokens: by_token) == pytest.approx(chance)


def test_questions_and_candidates_are_those_of_the_needles(
    made: Haystack, tokenizer: Any
) -> None:
    by_kind: dict[str, list[Needle]] = {}
    for needle in made.needles:
        by_kind.setdefault(needle.kind, []).append(needle)
    assert by_kind.keys() == KINDS.keys()
    for own in by_kind.values():
        whole = [
            {tokenizer.decode([*n.stem.tolist(), *b]) for b in n.branches} for n in own
        ]
        said = [tokenizer.decode(n.tokens).rstrip("\n") for n in own]
        values = {text.rstrip(".").split()[-1] for text in said}
        assert len(values) == len(own)
        for needle, texts, right in zip(own, whole, said, strict=True):
            answer = needle.branches[needle.answer]
            assert tokenizer.decode([*needle.stem.tolist(), *answer]) == right
            assert {text.rstrip(".").split()[-1] for text in texts} == values
            # Nothing of the answer is in the question, but what all values share.
            asked = tokenizer.decode(needle.stem)
            assert not any(value in asked for value in values)
            text = tokenizer.decode(made.tokens)
            assert text.count(right.strip()) == 1
            assert text.count(asked.strip()) == 1


@pytest.mark.parametrize("length", [1024, 2048, 4096])
def test_needles_stand_evenly_to_a_token(tokenizer: Any, length: int) -> None:
    made = haystack(FILLER, tokenizer, length, 1, seed=2)
    longest = max(len(n.stem) + max(map(len, n.branches)) for n in made.needles)
    assert len(made.tokens) + longest == length
    count, before = len(made.needles), 0
    filler = len(made.tokens) - sum(len(n.tokens) for n in made.needles)
    fillers, done = encoded(tokenizer, FILLER)[:filler], 0
    for place, needle in enumerate(made.needles):
        upto = filler * (2 * place + 1) // (2 * count)
        parts = [fillers[done:upto], needle.tokens]
        start, done = before, upto
        before += sum(map(len, parts))
        assert torch.equal(made.tokens[start:before], torch.cat(parts))
        assert needle.depth == place * DEPTHS // count
    assert torch.equal(made.tokens[before:], fillers[done:])


def test_seeds_decide_needles(tokenizer: Any, made: Haystack) -> None:
    again = haystack(FILLER, tokenizer, 2048, 1, seed=0)
    assert torch.equal(again.tokens, made.tokens)
    other = haystack(FILLER, tokenizer, 2048, 1, seed=1)
    assert not torch.equal(other.tokens, made.tokens)


def test_words_of_the_filler_are_taken_last(tokenizer: Any) -> None:
    cities = KINDS["city"].values
    filler = FILLER + " ".join(cities[DEPTHS:])
    made = haystack(filler, tokenizer, 2048, 1, seed=0)
    said = [tokenizer.decode(n.tokens) for n in made.needles if n.kind == "city"]
    assert sorted(text.split()[-1].rstrip(".") for text in said) == sorted(
        cities[:DEPTHS]
    )
    held = haystack(FILLER + " ".join(cities), tokenizer, 2048, 1, seed=0)
    assert len(held.needles) == len(made.needles)  # where it leaves no other word


def test_a_filler_must_be_long_enough(tokenizer: Any) -> None:
    with pytest.raises(CorpusError, match="must make"):
        haystack("short", tokenizer, 4096, 1, seed=0)


def test_a_question_is_read_as_behind_the_whole_text(
    place: Path, made: Haystack
) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(place).eval()
    label = "rope:scaling=yarn;factor=2;layout=half"
    with apply(model, label), torch.inference_mode():
        reading = Reading(model, made.tokens)
        found = [reading.logits(needle.stem) for needle in made.needles[:3]]
        whole = [torch.cat([made.tokens, needle.stem]) for needle in made.needles[:3]]
        wanted = [
            model(input_ids=ids[None], use_cache=False).logits[0] for ids in whole
        ]
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other[-1], rtol=1e-4, atol=1e-4)
    logits = wanted[0][: len(made.tokens) - 1]
    nats = torch.nn.functional.cross_entropy(logits, made.tokens[1:], reduction="sum")
    assert reading.nats == pytest.approx(float(nats), rel=1e-5)


@pytest.fixture(scope="module")
def folder(place: Path, corpus: str, tmp_path_factory: Any) -> Path:
    """Return the folder of a run of two rules, two lengths and two seeds."""
    out = tmp_path_factory.mktemp("run") / "run"
    given = {"fillers": "text,noise", "corpus": corpus}
    comparison = planned.retrieval(str(place), "1024,2048", "pi", given, {}, 2)
    (store := Store(out)).create()
    for cell in comparison.cells:  # here, where `transformers` is imported
        store.write(compute(cell, Progress()).to_json())
    return out


@pytest.fixture(scope="module")
def records(folder: Path) -> list[Record]:
    return load_records(folder)


def test_a_run_counts_needles_by_filler_kind_and_depth(records: list[Record]) -> None:
    assert len(records) == 8
    assert {record.status for record in records} == {"ok"}
    assert {record.label for record in records} == {
        "rope:layout=half",
        "rope:factor=2.0;layout=half;scaling=pi",
    }
    for record in records:
        found, asked = (np.array(record.arrays[name]) for name in ("found", "asked"))
        assert found.shape == asked.shape == (2, len(KINDS), DEPTHS)
        assert (asked == 1).all()
        assert (found <= asked).all()
        rows = {row.quantity: row for row in record.rows}
        assert rows.keys() == {"retrieval", "needles", "text_bits_per_byte"}
        assert rows["retrieval"].value == pytest.approx(found.sum() / asked.sum())
        assert rows["needles"].value == asked.sum()
        assert {row.x for row in rows.values()} == {record.spec.setting["read_length"]}


def test_what_has_a_record_is_not_computed_again(
    place: Path, corpus: str, records: list[Record]
) -> None:
    def keys(lengths: str, rules: str, **given: Any) -> set[str]:
        given = {"corpus": corpus, **given}
        return {*planned.retrieval(str(place), lengths, rules, given, {}, 2).keys}

    done = {record.key for record in records}
    assert keys("1024,2048", "pi") == done
    assert keys("2048", "pi") < done
    assert len(keys("1024,2048", "pi,yarn") - done) == 4
    for other in ({"fillers": "text"}, {"needles": 2}, {"dtype": "bfloat16"}):
        assert not keys("2048", "pi", **other) & done
    # As trained is the same at other lengths; a rule has another factor.
    assert len(keys("1024,4096", "pi") & done) == 2


def test_fillers_are_texts_of_their_corpora(place: Path, corpus: str) -> None:
    given = {"corpus": corpus, "fillers": "text,source,noise"}
    made = planned.retrieval(str(place), "1024", "all", given, {}, 2)
    assert made.remarks[0].startswith(f"{place.name} is evaluated as trained, without")
    setting: Any = made.cells[-1].setting
    text, source, noise = map(filler_of, [setting] * 3, ["text", "source", "noise"])
    assert text in Path(corpus).read_text()
    assert sorted(noise.split()) == sorted(text.split())
    assert noise.split() != text.split()
    assert source in b"\n".join(load_corpus("stdlib").test).decode(errors="ignore")
    first: Any = made.cells[0].setting
    assert filler_of(first, "text") != text


def test_the_command_plans_cells_of_retrieval(
    posenc: Any, place: Path, corpus: str
) -> None:
    given = ("--lengths", "1024,2048", "--rules", "pi", "--corpus", corpus)
    done = posenc(
        *("hf", "evaluate", place, "--retrieval", "--dry-run", "--format", "json"),
        *given,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 4
    assert {row["measure"] for row in found} == {"retrieval"}
    lengths = [f"read_length={length}" for length in (1024, 2048)]
    assert {row["setting"] for row in found} == {*lengths}


def frequencies(config: Any) -> tuple[Tensor, float]:
    """Return the frequencies and the factor that transformers makes of a Llama."""
    kind = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding
    made = kind(config)
    return made.inv_freq.double(), made.attention_scaling


@pytest.mark.parametrize(
    "rule", ["as trained", "pi", "ntk", "ntk_by_parts", "yarn", "llama3"]
)
def test_rope_parameters_rotate_as_the_scheme(place: Path, rule: str) -> None:
    aim = target(str(place), 4 * TRAINED)
    config = transformers.AutoConfig.from_pretrained(place)
    config.rope_parameters = aim.rope_parameters(rule)
    wanted, factor = frequencies(config)
    scheme: Any = aim.variant(rule).build(aim.geometry)
    found = scheme.angles(torch.tensor([1]))[0]
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=0)
    assert scheme.attention_factor == pytest.approx(factor)
    assert aim.rope_parameters("longrope") is None


LINEAR = {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}
QUARTER = {"partial_rotary_factor": 0.25}
PHI = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, **QUARTER}}
GLM = {**WIDER, "vocab_size": 200, "hidden_size": 512, "num_attention_heads": 2}
GPTJ = {"n_layer": 2, "n_embd": 64, "n_head": 4, "rotary_dim": 4, "n_positions": 64}


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        (transformers.PhiConfig(**WIDER, **PHI), {**LINEAR, **QUARTER}),
        # Which states no fraction:
        (transformers.Glm4MoeLiteConfig(**GLM), LINEAR),
        (transformers.GPTJConfig(**GPTJ), None),  # which reads no parameters
    ],
)
def test_rope_parameters_are_those_that_a_model_reads(
    config: Any, wanted: Any, tmp_path: Path
) -> None:
    config.save_pretrained(tmp_path)
    aim = target(str(tmp_path), 4 * config.max_position_embeddings)
    assert aim.own.options["fraction"] == 0.25
    assert aim.rope_parameters("pi") == wanted
    if wanted is None:
        assert [aim.rope_parameters(rule) for rule in ("ntk", "yarn")] == [None] * 2
    else:
        config.rope_parameters = wanted
        config.save_pretrained(tmp_path)
        longer = transformers.AutoConfig.from_pretrained(tmp_path)
        found: Any = hf.describe(longer)[0].variant
        assert found.options["fraction"] == 0.25


def test_a_model_with_other_layers_than_attention_is_refused(
    place: Path, tmp_path: Path
) -> None:
    shutil.copytree(place, tmp_path / "own")
    config = transformers.Lfm2Config(
        **{**GROUPED, "vocab_size": 512}, layer_types=["conv", "full_attention"]
    )
    config.save_pretrained(tmp_path / "own")
    with pytest.raises(hf.UnsupportedModelError, match="lfm2: must have attention alo"):
        planned.retrieval(str(tmp_path / "own"), "128", "pi", {}, {})


def test_a_rope_that_is_scaled_gets_no_recommendation(
    place: Path, tmp_path: Path
) -> None:
    shutil.copy(place / "config.json", tmp_path)
    scaled = {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}
    restate(tmp_path, rope_parameters=scaled)
    with pytest.raises(ConfigError, match="a rope without scaling, got linear"):
        target(str(tmp_path), 4 * TRAINED)


def test_a_length_within_the_trained_one_needs_no_evidence(
    posenc: Any, place: Path
) -> None:
    given = ("hf", "recommend", place, "--length", TRAINED)
    done = posenc(*given)
    assert (done.returncode, done.stderr) == (0, "")
    nothing = f"no scaling is needed up to {TRAINED} tokens"
    assert done.stdout == f"{place}, {TRAINED} tokens: {nothing}\n"
    found = json.loads(posenc(*given, "--format", "json").stdout)
    assert (found["verdict"], found["rule"]) == (nothing, "as trained")
    assert found["rope_parameters"]["rope_type"] == "default"


def test_code_in_a_folder_that_is_not_run_has_one_line(
    posenc: Any, place: Path, corpus: str, tmp_path: Path
) -> None:
    own = shutil.copytree(place, tmp_path / "own")
    named = {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}
    restate(own, auto_map=named)
    (own / "own.py").write_text("raise SystemExit(77)")
    line = (
        f"{own}: names code of its own (auto_map), which is not run; this is about the "
        f"model type llama of transformers; in Python, hf.check(model) checks a loaded "
        f"model\n"
    )
    asked = ("--lengths", "1024,2048", "--corpus", corpus, "--dry-run")
    for command, *words in (
        ("check",),
        ("describe",),
        ("evaluate", *asked),
        ("evaluate", "--retrieval", *asked),
        ("recommend", "--length", "64"),
        ("convert", "--layout", "adjacent", "--out", tmp_path / "copy"),
    ):
        done = posenc("hf", command, own, *words)
        assert done.returncode == 0, done.stderr
        assert done.stderr.startswith(line)
        assert done.stderr.count("auto_map") == 1
        assert ("(auto_map)" in done.stdout) == (command in ("check", "describe"))
    restate(own, auto_map={"AutoTokenizer": ["own", None]})
    assert posenc("hf", "describe", own).stderr == ""


def test_without_evidence_scalings_are_listed_and_none_is_chosen(
    posenc: Any, place: Path
) -> None:
    given = ("hf", "recommend", place, "--length", 4 * TRAINED)
    done = posenc(*given)
    how = (
        f"no scaling is chosen without --evidence; `hf evaluate {place} --retrieval "
        f"--lengths {TRAINED},{4 * TRAINED} --windows 6 --out DIR` records it"
    )
    size = f"with each of them, max_position_embeddings must be {4 * TRAINED}\n"
    assert (done.returncode, done.stderr) == (0, f"{size}{how}\n")
    found = json.loads(posenc(*given, "--format", "json").stdout)
    assert (found["rule"], found["verdict"], found["factor"]) == (None, how, None)
    assert found["max_position_embeddings"] is None
    assert {row["max_position_embeddings"] for row in found["rules"]} == {4 * TRAINED}
    rules = {row["rule"]: row for row in found["rules"]}
    assert rules["pi"]["rope_parameters"]["rope_type"] == "linear"
    assert rules["yarn"]["rope_parameters"]["factor"] == 4
    ramp = {"low_freq_factor": 1.0, "high_freq_factor": 32.0}  # of llama3, to 4
    assert rules["ntk_by_parts"]["rope_parameters"].items() >= ramp.items()
    assert rules["longrope"]["rope_parameters"] is None
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    for rule, row in rules.items():
        assert f"scaling={rule}" in row["scheme"]
        if rule not in ("ntk", "longrope"):
            kind = row["rope_parameters"]["rope_type"]
            assert any(line.startswith(f"{rule} {kind} 10000 4") for line in lines)


@pytest.mark.parametrize(
    ("trained", "asked", "lengths", "text"),
    [(16, 64, "1004", False), (1024, 60_000, "1024,60000", True)],
)
def test_the_command_that_is_proposed_runs(
    posenc: Any, tmp_path: Path, trained: int, asked: int, lengths: str, text: bool
) -> None:
    place = save_llama(tmp_path / "own", trained)
    said = posenc("hf", "recommend", place, "--length", asked).stderr
    words = shlex.split(said.split("`")[1])
    assert words[words.index("--lengths") + 1] == lengths
    assert ("TEXT" in words) == text  # the standard library is too short
    (tmp_path / "long.txt").write_text(100_000 * FILLER[:40])
    named = {"TEXT": tmp_path / "long.txt", "DIR": tmp_path / "out"}
    done = posenc(*(named.get(word, word) for word in words), "--dry-run")
    assert done.returncode == 0, done.stderr


def test_a_model_without_a_tokenizer_is_proposed_no_command(
    posenc: Any, place: Path, tmp_path: Path
) -> None:
    shutil.copy(place / "config.json", tmp_path)
    done = posenc("hf", "recommend", tmp_path, "--length", 4 * TRAINED)
    assert done.returncode == 0
    assert "evidence, which cannot be recorded: model must be a folder" in done.stderr


def test_the_command_recommends_with_evidence(
    posenc: Any, place: Path, folder: Path, tmp_path: Path
) -> None:
    given = ("--length", "4096", "--evidence", folder)
    done = posenc("hf", "recommend", place, *given, "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["verdict"].startswith("not tested, too few seeds: ")
    for name in ("rule", "scheme", "factor", "rope_parameters"):
        assert found[name] is None  # nothing to copy where nothing differs
    assert found["max_position_embeddings"] is None
    rows = {row["rule"]: row for row in found["rules"]}
    assert {*rows} == {"as trained", "pi"}
    assert "rope_parameters" not in rows["as trained"]
    assert rows["pi"]["rope_parameters"]["rope_type"] == "linear"
    assert found["reasons"][1] == "evidence at factor 2, 4096 tokens need 4"
    assert found["reasons"][2] == "found: 2 seeds, 6 are needed"
    done = posenc("hf", "recommend", place, *given)
    assert done.returncode == 0
    for line in ("verdict not tested, too few seeds:", "base 10000.0", "pi linear 1"):
        assert line in " ".join(done.stdout.split())
    top = done.stdout.partition("evidence: ")[0]
    assert not any(word in top for word in ("factor", "null", "max_position", '"'))
    assert "not better than chance, 0.2: " in " ".join(done.stdout.split())
    assert "another model" not in done.stderr
    other = save_llama(tmp_path / "other", 2048)
    done = posenc("hf", "recommend", other, *given, "--format", "json")
    found = json.loads(done.stdout)
    assert "evidence at factor 2, 4096" not in found["reasons"]  # which is this one's
    assert found["another"][:2] == [
        f"these are records of another model: {place.name}, trained at 1024 tokens "
        f"with rope:layout=half; its sizes are not recorded",
        "this model: 2048 tokens, rope:layout=half, 2 layers, width 32, head_dim 8",
    ]
