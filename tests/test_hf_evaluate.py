"""Checkpoints, read at several lengths and under every scaling."""

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure

transformers = pytest.importorskip("transformers", minversion="5.20")

from support.checkpoints import restate, save_llama, save_tokenizer  # noqa: E402
from support.shown import refusal  # noqa: E402
from tokenizers import pre_tokenizers  # noqa: E402

from posenc_compare.errors import ConfigError  # noqa: E402
from posenc_compare.hf.checkpoint import sha256_of  # noqa: E402
from posenc_compare.hf.evaluate import Reader, parts, window_of  # noqa: E402
from posenc_compare.hf.planned import evaluation  # noqa: E402
from posenc_compare.records.load import load_records  # noqa: E402
from posenc_compare.records.record import Record  # noqa: E402
from posenc_compare.registry import PLOTS  # noqa: E402
from posenc_compare.run.compute import compute  # noqa: E402
from posenc_compare.schemes import create  # noqa: E402
from posenc_compare.settings.checkpoint import Checkpoint  # noqa: E402
from posenc_compare.show.frame import Numbers  # noqa: E402
from posenc_compare.show.setting import short_setting  # noqa: E402
from posenc_compare.show.tables import display_tables  # noqa: E402
from posenc_compare.train.checkpoints import Checkpoints  # noqa: E402
from posenc_compare.train.progress import Progress  # noqa: E402

TRAINED = 32


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a small Llama and a tokenizer of bytes."""
    return save_llama(tmp_path_factory.mktemp("tiny"), TRAINED)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(f"{n * n % 97} and {n} é\n" for n in range(4000)))
    return str(path)


@pytest.fixture(scope="module")
def made(place: Path, corpus: str, tmp_path_factory: Any) -> list[Record]:
    """Return the records of a run of two windows."""
    from posenc_compare.records.store import Store

    out = tmp_path_factory.mktemp("run") / "run"
    given = {"lengths": "16,32,64", "corpus": corpus}
    comparison = evaluation(str(place), given, {"workers": 1}, windows=2)
    comparison.compute(Store(out), lambda event: None)
    records = sorted(load_records(out), key=lambda one: one.spec.seed)
    assert [(one.spec.seed, one.status) for one in records] == [(0, "ok"), (1, "ok")]
    assert {one.label for one in records} == {"rope:layout=half"}
    return records


@pytest.fixture(scope="module")
def rows(made: list[Record]) -> dict[Any, float | None]:
    """Return the numbers of the run, by quantity, case and length."""
    return {
        (mean.quantity, mean.case, None if math.isnan(mean.x) else mean.x): mean.mean
        for mean in Numbers(made).means.itertuples()
    }


def windows(place: Path, corpus: str) -> torch.Tensor:
    """Return the tokens that are read, made by hand."""
    from posenc_compare.tasks.corpus import load_corpus

    text = load_corpus(corpus).test[0]
    whole = len(text) // (8 * 64)  # windows that the text has
    starts = [8 * 64 * number for number in (0, whole // 2)]
    tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    found = [text[at : at + 8 * 64].decode(errors="ignore") for at in starts]
    return torch.tensor([tokenizer(text)["input_ids"][:65] for text in found])


def by_hand(place: Path, corpus: str, length: int, **rope: Any) -> float:
    """Return bits per byte by the model's own logits and rotary positions."""
    model = transformers.AutoModelForCausalLM.from_pretrained(place)
    if rope:
        config = model.config
        config.rope_parameters = {"rope_theta": 10000.0, **rope}
        state = model.state_dict()
        model = transformers.LlamaForCausalLM(config)
        model.load_state_dict(state)
    text = windows(place, corpus)
    tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    found = []
    for row in text:
        nats = 0.0
        for start in range(0, 64, length):
            ids = row[start : start + length + 1]
            with torch.no_grad():
                logits = model.eval()(input_ids=ids[None, :-1]).logits[0]
            nats += float(F.cross_entropy(logits, ids[1:], reduction="sum"))
        size = len(tokenizer.decode(row[1:]).encode())
        found.append(nats / size / math.log(2))
    return sum(found) / len(found)


@pytest.mark.parametrize("length", [16, 32, 64])
def test_bits_are_those_of_the_model_itself(
    rows: Any, place: Path, corpus: str, length: int
) -> None:
    wanted = by_hand(place, corpus, length)
    assert rows["bits_per_byte", "", length] == pytest.approx(wanted, rel=2.0**-16)


def test_rules_are_those_of_transformers(rows: Any, place: Path, corpus: str) -> None:
    linear = {"rope_type": "linear", "factor": 2.0}
    yarn = {"rope_type": "yarn", "factor": 2.0}
    yarn["original_max_position_embeddings"] = TRAINED
    for case, rule in (("pi", linear), ("yarn", yarn)):
        for x, name in ((64, case), (16, f"static {case}")):
            wanted = by_hand(place, corpus, x, **rule)
            found = rows["read_bits_per_byte", name, x]
            assert found == pytest.approx(wanted, rel=2.0**-16), name
            own = rows["bits_per_byte", "", x]
            assert abs(found - own) > 2.0**-10, name  # and none is as trained


def test_rules_are_for_lengths_beyond_the_trained_one(rows: Any) -> None:
    read = {(case, x) for quantity, case, x in rows if quantity == "read_bits_per_byte"}
    assert {x for case, x in read if not case.startswith("static")} == {64}
    assert {x for case, x in read if case.startswith("static")} == {16, 32}


def test_readings_have_an_order_where_windows_are_enough(made: list[Record]) -> None:
    bits, read, sliding = display_tables(Numbers(made))
    assert bits.title.startswith("bits per byte of a checkpoint ↓")
    assert read.lines[0] == "no order: 2 seeds, 6 are needed"
    assert sliding.title.startswith("Measures of checkpoints")
    words = short_setting(made)
    assert "trained at 32 tokens, float32, evaluated on the test" in words


def test_a_plot_of_one_longer_length_shows_the_factor_of_the_longest(
    made: list[Record],
) -> None:
    figure = PLOTS.get("checkpoint")(made)
    assert isinstance(figure, Figure)
    (longest,) = figure.axes
    lines = [line for line in longest.lines if len(np.asarray(line.get_xdata())) == 3]
    assert len(lines) >= 7  # rules, some of them alike, and as trained


def test_windows_slide_over_every_token_once() -> None:
    row = torch.arange(65)
    for length, within in ((16, 0), (64, 0), (64, 32), (64, 20), (64, 63)):
        found = list(parts(row, length, within))
        targets = torch.cat([aims for _, aims in found])
        assert torch.equal(targets, row[1:])
        for text, aims in found:
            assert torch.equal(text[-len(aims) :] + 1, aims)
            assert len(text) <= (within or length)


def test_what_was_read_is_not_read_again(place: Path, tmp_path: Path) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(place).eval()
    scheme = create("rope", options={"layout": "half"}, model_dim=32, heads=4)
    tokens = torch.randint(256, (65,), generator=torch.Generator().manual_seed(0))
    folder = tmp_path / "ckpt" / ("0" * 32)
    folder.parent.mkdir()

    def reader() -> Reader:
        kept = Checkpoints(folder, interval=0)
        return Reader(model, tokens, 64, Progress(checkpoints=kept))

    one = reader()
    first = {length: one.bits(scheme, "", length) for length in (16, 32)}
    again = reader()
    again._nats = None  # type: ignore[assignment, method-assign]
    for length, bits in first.items():
        assert again.bits(scheme, "", length) == bits
    with pytest.raises(TypeError):
        again.bits(scheme, "", 64)


def test_windows_are_spread_and_stay_where_they_are_as_more_are_read() -> None:
    documents = [bytes(range(i, i + 7)) for i in (0, 10, 20, 30)]  # 3, 3, 3 and 3
    found = [window_of(documents, 2, number) for number in range(12)]
    places = [d[at : at + 2] for d in documents for at in (0, 2, 4)]
    assert sorted(found) == sorted(places)
    assert [places.index(one) for one in found[:5]] == [0, 6, 3, 9, 1]


ANY_RULE = "rules must be all, or of "
# By what is given to `hf evaluate`.
WRONG = {
    "--lengths 24,32": "lengths must divide the longest, 32, got 24",
    "--lengths a": "lengths must be whole numbers by comma, got 'a'",
    "--dtype float16": "dtype must be float32 or bfloat16",
    "--rules nkt --lengths 16,64": ANY_RULE,
    "--rules pi,nkt --lengths 16,32": ANY_RULE,
    "--rules , --lengths 16,64": ANY_RULE,
    "--windows 0": "windows must be a whole number from 1",
    "--lengths 999999": (
        "must hold out 1 x 7999993 bytes, each within one document, for 999999"
    ),
    "--retrieval --fillers x": "fillers must be of text, source, noise",
    "--retrieval --needles 0": "needles must be a whole number from 1",
    "--retrieval --windows 0": "windows must be a whole number from 1",
    "--retrieval --lengths 9,x": "lengths must be whole numbers by comma",
    "--retrieval --lengths 999999": "must hold out 7999992 bytes",
    "--retrieval --lengths 512,64": "lengths must have room for 15 needles, got 64; ",
    "--retrieval --lengths 512 --needles 5": "needles must be at most 4, got 5",
    "--retrieval --lengths 64 --rules nkt": ANY_RULE,
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_input_has_one_line(
    posenc: Any, place: Path, corpus: str, words: str
) -> None:
    given = ("--corpus", corpus, "--dry-run", *words.split())
    assert WRONG[words] in refusal(posenc("hf", "evaluate", place, *given))


def changed(place: Path, folder: Path, **fields: Any) -> Path:
    """Return a copy of a checkpoint with other fields in its configuration."""
    shutil.copytree(place, folder)
    restate(folder, **fields)
    return folder


def scaled(**more: Any) -> dict[str, Any]:
    rope = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 2.0}
    return {"rope_parameters": {**rope, "original_max_position_embeddings": 16, **more}}


def test_it_is_said_why_nothing_is_read_under_a_rule(
    place: Path, corpus: str, tmp_path: Path
) -> None:
    given = {"lengths": "16,32", "corpus": corpus}
    (line,) = evaluation(str(place), given, {}).remarks
    assert "no length is above its trained length of 32; --lengths 32,64" in line
    assert not evaluation(str(place), {**given, "lengths": "16,64"}, {}).remarks
    other = str(changed(place, tmp_path / "scaled", **scaled()))
    (line,) = evaluation(other, {**given, "lengths": "16,64"}, {}).remarks
    assert "its configuration already scales rope (yarn)" in line
    with pytest.raises(ConfigError, match="rules must be all if the configuration"):
        evaluation(other, {**given, "rules": "pi"}, {})


def test_an_attention_factor_of_yarn_is_read(
    place: Path, corpus: str, tmp_path: Path
) -> None:
    other = changed(place, tmp_path / "hot", **scaled(attention_factor=2.0))
    (cell,) = evaluation(str(other), {"lengths": "16,32", "corpus": corpus}, {}).cells
    assert cell.variant.options["attention"] == 2.0


def test_frequencies_that_are_built_otherwise_are_not_read(
    place: Path, corpus: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding
    right = kind.compute_default_rope_parameters

    def wrong(config: Any, **more: Any) -> Any:
        inv_freq, factor = right(config, **more)
        return 1.01 * inv_freq, factor

    monkeypatch.setattr(kind, "compute_default_rope_parameters", staticmethod(wrong))
    with pytest.raises(ConfigError, match=r"states rope:.*off by 1\.0e-02"):
        evaluation(str(place), {"lengths": "16,32", "corpus": corpus}, {})


def test_a_model_that_reads_otherwise_by_itself_is_refused(place: Path) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(place).eval()
    tokens = torch.randint(256, (65,), generator=torch.Generator().manual_seed(0))
    reader = Reader(model, tokens, 64, Progress())
    given: dict[str, Any] = {"model_dim": 32, "heads": 4, "length": TRAINED}
    reader.check_own(create("rope", options={"layout": "half"}, **given))
    with pytest.raises(ConfigError, match="its logits under rope must equal"):
        reader.check_own(create("rope", **given))


def without_letters(folder: Path) -> None:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    known = [letter for letter in letters if letter not in "Ã©"]  # the bytes of é
    vocabulary = {letter: number for number, letter in enumerate(known)}
    save_tokenizer(folder, {**vocabulary, "?": len(known)}, unk_token="?")


def redrawn(folder: Path) -> None:
    torch.manual_seed(1)
    config = transformers.AutoConfig.from_pretrained(folder)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)


LATE = "has changed since this was planned"
# By what the record says.
FAULTS: dict[str, Callable[[Path], None]] = {
    "must have a place for all its weights, has none for 9": (
        lambda folder: restate(folder, num_hidden_layers=1)
    ),
    "must have all weights, lacks 9, the first of them model.l": (
        lambda folder: restate(folder, num_hidden_layers=3)
    ),
    "characters that the tokenizer knows": without_letters,
    LATE: redrawn,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_checkpoint_that_cannot_be_read_as_planned_is_refused(
    place: Path, corpus: str, tmp_path: Path, fault: str
) -> None:
    other = changed(place, tmp_path / "model")
    if fault != LATE:
        FAULTS[fault](other)
    (cell,) = evaluation(str(other), {"lengths": "16,32", "corpus": corpus}, {}).cells
    if fault == LATE:
        FAULTS[fault](other)
    record = compute(cell, Progress())
    assert record.status != "ok"
    assert fault in record.error


def test_a_folder_without_a_tokenizer_is_refused_before_it_is_read(
    place: Path, corpus: str, tmp_path: Path
) -> None:
    other = changed(place, tmp_path / "model")
    for path in other.glob("tokenizer*"):
        path.unlink()
    given = {"lengths": "16,32", "corpus": corpus}
    wanted = r"a tokenizer that transformers loads, got \w+: .* in 'model'; the files"
    with pytest.raises(ConfigError, match=wanted):
        evaluation(str(other), given, {})
    (other / "tokenizer.json").write_text("{")
    with pytest.raises(ConfigError, match=wanted):
        evaluation(str(other), given, {})


def test_other_weights_are_another_cell(place: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(place, other)
    assert sha256_of(other) == sha256_of(place)
    (other / "w").mkdir()
    (other / "w" / "x.safetensors").write_bytes(b"0")
    before = sha256_of(other)
    (other / "w" / "x.safetensors").write_bytes(b"1")
    assert sha256_of(other) != before
    assert sha256_of(changed(place, tmp_path / "more", rope_theta=5e5)) != before


def test_what_is_read_with_a_gguf_file_counts(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(b"0")
    (tmp_path / "other.gguf").write_bytes(b"0")
    before = sha256_of(model)
    (tmp_path / "other.gguf").write_bytes(b"1")
    assert sha256_of(model) == before
    (tmp_path / "tokenizer_config.json").write_text("{}")
    assert sha256_of(model) != before


def test_a_link_to_a_checkpoint_keeps_its_name(
    place: Path, corpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A model of the hub is a link to a blob, whose name says nothing.
    (tmp_path / "named").symlink_to(place)
    monkeypatch.chdir(tmp_path)
    (cell,) = evaluation("named", {"lengths": "16,32", "corpus": corpus}, {}).cells
    assert isinstance(cell.setting, Checkpoint)
    assert cell.setting.place == str(tmp_path / "named")
    assert cell.setting.model == "named"
