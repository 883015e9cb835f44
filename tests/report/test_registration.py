"""Entries for the OpenDP deployments registry, and the dossier for NIST SP 800-226."""

import json
import re
from fractions import Fraction
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import yaml

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.noise import SeededRandomSource
from leastnoise.report.registration import BLANK, dossier, entry, register
from leastnoise.sources import Codes
from leastnoise.workload.publication import Publication
from tests.shell import call, fail

TEXT = {"type": "string", "minLength": 1}


def closed(required: str, optional: str = "", **fields: object) -> dict[str, object]:
    names = [*required.split(), *optional.split(), *fields]
    properties = {name: fields.get(name, TEXT) for name in names}
    wanted = [*required.split(), *fields]
    return {"type": "object", "additionalProperties": False, "properties": properties, "required": wanted}


# What the registry's own schema asks for, as of November 2026: names of fields, types and lists of words.
SCHEMA = closed(
    "url_slug",
    status={"const": "Draft"},
    tier={"enum": [1, 2, 3]},
    deployment=closed(
        "",
        basic=closed(
            "name intended_use data_product_region description",
            data_curators={"type": "array", "items": TEXT, "minItems": 1},
            data_product_type={"enum": ["Summary statistics", "Machine learning model", "Dataset", "Synthetic data"]},
            publication_date={"type": "string", "format": "date"},
        ),
        dp_variant=closed(
            "data_domain unprotected_quantities",
            variant_name={"enum": ["Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"]},
        ),
        privacy_loss=closed(
            "privacy_unit privacy_unit_details privacy_parameters_details",
            privacy_parameters=closed("", epsilon={"type": "number"}, delta={"type": "number"}, rho={"type": "number"}),
        ),
        deployment_model=closed(
            "actors release_type_details access_type_details",
            "model_name_details data_source_type_details",
            model_name={"enum": ["Local", "Central", "Shuffle", "Federated"]},
            release_type={"enum": ["One release", "Many releases"]},
            access_type={"enum": ["Interactive", "Non-interactive"]},
        ),
        accounting=closed("post_processing composition"),
        implementation=closed("preprocessing_and_hyperparameter_tuning mechanisms justification"),
        administrative=closed("sources notes", registry_authors={"type": "array", "items": TEXT, "minItems": 1}),
    ),
)


def released(seed: int | None = None, **budget: object) -> ln.Release:
    domain = ln.Domain.of(age=range(4), sex=["F", "M"])
    plan = ln.plan(ln.Workload(domain).marginals(ways=2), ln.Budget(**{"epsilon": 1, "delta": 1e-9} | budget))
    rows = np.random.default_rng(1).integers(domain.shape, size=(100, 2))
    source = {} if seed is None else {"random_source": SeededRandomSource(seed)}
    return plan.run(Codes(domain, rows, "Kommune: Jährliche Zählung 2026"), **source)


RELEASES = {
    "rows": released,
    "people": lambda: released(rows_per_person=3),
    "replaced": lambda: released(neighbours="replace"),
    "matrix": lambda: ln.matrix_plan(np.tri(3), ln.Budget(rho=0.1)).run(np.arange(3)),
}


@pytest.mark.parametrize("name", RELEASES)
def test_entries_fit_the_schema_of_the_registry(name, tmp_path):
    release = RELEASES[name]()
    file, _ = register(release, tmp_path / "r")
    assert re.fullmatch(r"[a-z0-9_]+\.yaml", file)
    data = yaml.safe_load((tmp_path / "r" / file).read_text("utf-8"))
    jsonschema.Draft7Validator(SCHEMA, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER).validate(data)
    assert data == entry(release)
    assert data["url_slug"] == file.removesuffix(".yaml")
    stated = data["deployment"]["privacy_loss"]["privacy_parameters"]
    assert stated == {k: getattr(release.privacy, k) for k in ("epsilon", "delta", "rho")}
    assert stated["rho"] >= float(release.cost.mu_squared) / 2 * (1 - 1e-12)


@pytest.mark.parametrize("name", RELEASES)
def test_what_only_the_office_knows_is_listed(name):
    release = RELEASES[name]()
    text = dossier(release)
    head, body = text.split("## The guarantee")
    listed = re.findall(r"^- ([^:]+): \S", head, re.MULTILINE)
    marked = re.findall(rf"^\*\*([^*]+)\.\*\*.*\*\*{BLANK}\*\*", body, re.MULTILINE)
    assert listed == marked
    assert len(listed) >= 10
    assert release.privacy.statement in body
    for point in ("Unit of privacy", "Composition", "Side channels", "Access control", "Exactness", "Statistical bias"):
        assert f"**{point}" in body


def test_the_unit_and_what_is_public_are_told():
    people, replaced = (entry(RELEASES[k]())["deployment"] for k in ("people", "replaced"))
    assert people["privacy_loss"]["privacy_unit"] == "A person with at most 3 rows"
    assert replaced["dp_variant"]["unprotected_quantities"] == "The number of rows is taken to be public."


def test_words_of_the_publication_are_filled_in():
    words = {
        "title": "Labour survey",
        "publisher": "Office",
        "contact": "a@b.org",
        "licence": "CC0",
        "citation": "Cite",
    }
    release = released().published(Publication.of(words | {"introduction": "A survey\n\nof people."}))
    data = entry(release)
    jsonschema.Draft7Validator(SCHEMA, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER).validate(data)
    basic, last = data["deployment"]["basic"], data["deployment"]["administrative"]
    assert (data["url_slug"], basic["name"], basic["data_curators"]) == ("labour_survey", "Labour survey", ["Office"])
    assert basic["description"].endswith("What the data is: A survey of people.")
    assert last["sources"] == "Cite"
    assert last["notes"].endswith("Contact: a@b.org. Licence: CC0.")
    text = dossier(release)
    assert text.startswith("# Differential privacy of Labour survey: dossier")
    assert "**Contact.** Who answers questions: a@b.org" in text
    assert "- Contact:" not in text


def test_adaptive_releases_say_that_tables_were_chosen():
    domain = ln.Domain.of(a=3, b=3, c=2)
    rows = np.random.default_rng(1).integers(domain.shape, size=(200, 3))
    release = ln.adaptive_plan(ln.Workload(domain).marginals(ways=2), ln.Budget(rho=0.1)).run(rows)
    assert "chosen by noisy looks at the data" in dossier(release)
    assert "planned without the data" in dossier(released())


def test_seeded_noise_is_not_registered(tmp_path):
    with pytest.raises(LeastnoiseError, match="its noise came from a seed, which protects nobody"):
        register(released(seed=1), tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


def test_the_command(tmp_path: Path, capsys):
    released().save(tmp_path / "out")
    run = ("register", tmp_path / "out", "--out", tmp_path / "r")
    code, text, err = call(capsys, *run)
    assert (code, err) == (0, "")
    assert text.startswith("wrote kommune_j_hrliche_z_hlung_2026.yaml and dossier.md to ")
    assert "exists already" in fail(capsys, *run)
    code, text, _ = call(capsys, *run, "--overwrite", "--json")
    message = json.loads(text)
    assert message["blanks"] > 10
    exact, rounded = Fraction(message["cost"]["mu_squared"]), message["cost"]["at_most"]
    assert 0 <= Fraction(rounded) - exact <= exact / 10**5
    for name in message["files"]:  # people read a rounded number; the fraction is for programs
        words = (Path(message["folder"]) / name).read_text("utf-8")
        assert f"mu^2 = {rounded} in" in words
        assert message["cost"]["mu_squared"] not in words
    (tmp_path / "r" / "mine.txt").write_text("mine")
    assert "is no registration and is not replaced" in fail(capsys, *run, "--overwrite")
