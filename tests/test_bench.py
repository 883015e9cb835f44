"""Benchmarks: each runs on a tiny setting, and the copy of the published figures agrees with our workloads."""

import importlib
import json
from argparse import Namespace
from dataclasses import replace
from itertools import combinations
from math import comb, pi, sqrt
from zipfile import ZipFile

import numpy as np
import pytest

from bench import (
    aim_pgm,
    aim_rounds,
    aim_table2,
    aim_tradeoff,
    common,
    datasets,
    estimate_peers,
    release_adult,
    workloads,
)
from bench.common import Column, Report, check_equal, check_search, compare, measure, published
from bench.phases import answers_of
from bench.qs_table3 import LARGEST
from bench.releases import BUDGET, Task, made_up, plain, shares
from bench.wff_figure1 import lemma
from leastnoise import Budget, Domain, Workload, plan, sized
from leastnoise.noise import SeededRandomSource
from leastnoise.sources import Codes
from tests.benches import run
from tests.oracles import row_weights

TINY = {
    "qs_table2": "--datasets CPS --ways 1 2",
    "qs_table3": "--datasets CPS --workloads affine --baseline uniform --gap 1e-3",
    "qs_table4": "--sizes 10 --workloads marginal prefix range circular affine abs_diff random",
    "qs_table5": "--sizes 10 --dims 10 --baseline uniform",
    "qs_table6": "--sizes 10 --dims 50 --baseline both",
    "qs_table7": "--sizes 10 --dims 10",
    "qs_table8": "--sizes 10 --workloads marginal prefix",
    "qs_baselines": "--tables 2 3 4 5 --datasets CPS --sizes 10",
    "wff_figure1": "--ways 1 2 --sizes 2 3 --dims 2 5",
    "scaling_d": "--dims 10 200 --size 6",
    "release_adult": "--ways 1 --rows 500 --workloads hybrid --baseline uniform",
    "adult_tv": "--dataset titanic --attributes 4 --rows 2000 --epsilons 1 --seeds 1 2 --triples 2",
    "release_wide": "--dims 5 --size 4 --rows 500",
    "large_sums": "--pairs 8 70 --triple 4 --baseline uniform",
    "rounding": "--only n=10",
    "replaced": "--only [4]^6",
    "product_weights": "--cubes 3^3 --datasets CPS --values 3 --ways 2 --tilts 1",
    "floors": "--tables 4 --sizes 10 --only prefix --certify",
    "floor_peers": "--peers --only [2]^5",
}

OTHERS = {  # no choice of a --baseline
    "counting": "--rows 3000 --attributes 5 --sample 2 --stream-rows 5000 --memory 100MB",
    "people": "--rows 3000 --people 800 --times 1000",
    "keys": "--keys 3000 --rows 9000 --people 800 --memory 500MB",
    "keys_compared": "--people 3000 --events 10 --bounds 1 3 --seeds 1",
    "grem_figure3": "--ways 2 3 --sizes 2 8 --repeats 2",
    "continual": "--levels 1 4 11",
    "estimates": "--datasets cases wide titanic --attributes 4 --rows 3000 --epsilons 1 --mixtures 1 --triples 2",
    "measured_pairs": "--datasets cases titanic --attributes 4 --rows 3000 --epsilons 1",
    "error_bars": "--datasets titanic --attributes 4 --rows 3000 --epsilons 1 --triples 1 --releases 2 --replicates 3",
    "start": "--repeats 1",
    "real_tables": "--only contacts purchases",
    "wff_figure2": "--sizes 2 5 9 1000 --planned 9",
    "growth": "--values 4 8 --bits 12 25 --parities 2 --attributes 12 50 --ways 1 3",
    "wff_size": "--side 9 --values 50 --cycle 300",
    "norms": "--sizes 2 16 --cells 8 --alphas 0 0.3 0.6 1 --race 6 --large",
    "aim_table2": "--attributes 5 --rows 500 --seeds 1",
    "aim_tradeoff": "--datasets titanic acs --attributes 5 --rows 500 --epsilons 0.1 --seeds 1 2",
    "grem_lnn": "--dataset titanic --attributes 4 --rows 300 --seeds 1 2 --ways 2 --tolerance 0.05",
    "aim_rounds": "--datasets titanic --attributes 5 --rows 500 --rounds 8 --seeds 1 2",
    "cascade_speed": "--bits 4 6 8 --repeats 30 --fit 4 --memory ideal --dense-bits 6",
    "cascade_runtime": "--bits 2 5 --eigen-bits 2 --repeats 2",
    "cascade_utility": "--bits 5 6 --draws 100",
    "cascade_levels": "--bits 5 --grid-bits 3 --runs 40",
    "cascade_designs": "--draws 500",
    "uneven_trees": "--seeds 1 --leaves 60",
    "largest_error": "--sizes 4 --workloads prefix affine",
}


@pytest.mark.long
@pytest.mark.parametrize("name", [*TINY, *OTHERS])
def test_runs_and_ends_with_one_line_of_json(name, capsys):
    code, document = run(name, (TINY | OTHERS)[name], capsys)
    assert code == 0
    assert document["ok"] is True
    assert document["benchmark"] == name
    assert set(document) == {"benchmark", "settings", "figures", "seconds", "ok"}
    assert document["figures"]
    assert document["settings"]["machine"]["cores"] >= 1


@pytest.mark.parametrize("name", TINY)
def test_help(name, capsys):
    with pytest.raises(SystemExit) as end:
        importlib.import_module(f"bench.{name}").main(["--help"])
    assert end.value.code == 0
    assert "--baseline" in capsys.readouterr().out


# Certified optima with the uniform baseline, known from independent computations.
OPTIMA = {
    ("marginal", 10): 23.48,
    ("prefix", 10): 33.69,
    ("range", 10): 41.08,
    ("circular", 10): 39.77,
    ("affine", 10): 28.01,
    ("abs_diff", 10): 30.10,
    ("affine", 40): 41.95,
    ("abs_diff", 40): 43.84,
}


@pytest.mark.parametrize(("kind", "n"), OPTIMA)
def test_known_optima(kind, n):
    assert measure(workloads.one_and_two_way(kind, n), gap=1e-5).value == pytest.approx(OPTIMA[kind, n], abs=0.005)


@pytest.mark.parametrize(("dataset", "optimum"), [("Adult", 45.55), ("Loans", 34.99), ("CPS", 7.886)])
def test_known_optima_of_the_schemas(dataset, optimum):
    assert measure(workloads.hybrid(dataset, "3"), gap=1e-5).value == pytest.approx(optimum, abs=0.005)


@pytest.mark.parametrize("row", published("table2").rows, ids=common.label_of)
def test_counts_of_table_2(row):
    assert workloads.hybrid(row["dataset"], row["ways"]).queries == row["queries"]


@pytest.mark.parametrize("row", published("table3").rows, ids=common.label_of)
def test_counts_of_table_3(row):
    assert workloads.pairwise(row["dataset"], row["workload"], LARGEST).queries == row["queries"]


@pytest.mark.parametrize("row", published("table4").rows, ids=common.label_of)
def test_counts_of_table_4(row):
    assert workloads.one_and_two_way(row["workload"], row["n"]).queries == row["queries"]


def test_views_of_tables_5_to_7():
    mixed = {(r["n"], r["d"]): r for r in published("table7").rows}
    for row in published("table5").rows:
        assert workloads.views(workloads.mixed(row["n"], row["d"])) == mixed[row["n"], row["d"]]["views"]
    for row in published("table6").rows:
        assert row["views"] == comb(row["d"], 1) + comb(row["d"], 2)


@pytest.mark.parametrize("row", [*published("table6").rows, *published("table7").rows], ids=common.label_of)
def test_phases_of_tables_6_and_7_add_up(row):
    """Less than 0.1 is stored as 0.05, and each of four printed numbers is rounded to 0.1."""
    assert row["total_s"] == pytest.approx(row["decompose_s"] + row["solve_s"] + row["assemble_s"], abs=0.21)


def test_answers_of_every_kind_are_assembled():
    """Against explicit rows times the counts of the same release."""
    domain = workloads.cube(3, 4)
    work = workloads.mixed(3, 4).suffix("a0").marginals("a1", "a2")
    new_plan = plan(work, Budget(mu=1), baseline="uniform")
    release = new_plan.run(Codes(domain, made_up(domain, 50)), random_source=SeededRandomSource(3))
    structure, count = new_plan.design.structure, 0
    for table in structure.tables:
        block = structure.block_of(table)
        answers = np.concatenate(list(answers_of(new_plan, release.state, table)))
        sets = [s for s in structure.sets(table.axes).tolist() if set(s) <= set(block.on)]
        assert len(answers) == len(sets) == table.copies
        for one, members in zip(answers, sets, strict=True):
            counts = release.counts(*(domain.names[a] for a in sorted(members)))
            order = np.argsort(np.argsort(members))
            counts = counts.transpose(order)
            if block.is_product:
                for axis, a in enumerate(members):
                    rows = block.family(a).rows(3)
                    counts = np.moveaxis(np.tensordot(rows, counts, axes=(1, axis)), 0, axis)
                expected = counts.ravel()
            else:
                expected = block.tensor.rows((3, 3)).reshape(-1, 9) @ counts.ravel()
            np.testing.assert_allclose(one, expected, atol=1e-9)
        count += answers.size
    assert count == work.queries


def test_a_table_without_rows_fails(capsys):
    for name in ("qs_table5", "qs_table6", "qs_table7"):
        code, document = run(name, "--sizes 11", capsys)
        assert (code, document["ok"], document["figures"]) == (1, False, [])


@pytest.mark.long
def test_sizes_without_a_published_error_are_run(capsys, monkeypatch):
    monkeypatch.setattr("bench.qs_table5.mixed", lambda n, d: workloads.mixed(3, 4))  # 40 values take seconds
    code, document = run("qs_table5", "--sizes 40 --dims 10 40 --baseline uniform", capsys)
    assert code == 0
    assert [(f["n"], f["d"], f["plan_s"]) for f in document["figures"]] == [(40, 10, 60.1), (40, 40, 3044.5)]
    assert all(f["uniform"] > 0 and "querysmasher" not in f for f in document["figures"])


def test_every_query_has_a_weight():
    work = workloads.weighted_queries("prefix", 3, d=4, seed=3)
    assert len(work.blocks) == 4 + 6
    weights = row_weights(work)
    assert set(weights) <= {1.0, 2.0, 3.0, 4.0, 5.0}
    assert len(set(weights[:3])) > 1
    assert work.queries == workloads.one_and_two_way("prefix", 3, d=4).queries
    dense = plan(work, Budget(mu=1), baseline="uniform").factorization()
    variances = np.diag(dense.L @ dense.Sigma @ dense.L.T)
    value = measure(work, gap=1e-5, weighted=True).value
    assert value == pytest.approx(sqrt(float(weights @ variances) / work.queries), rel=1e-6)


def test_rows_of_table_8_are_rows_of_table_4_weighted():
    plain = {(r["n"], r["workload"]): r for r in published("table4").rows}
    for row in published("table8").rows:
        ratio = row["wff"] / plain[row["n"], row["workload"]]["wff"]
        assert ratio == pytest.approx(1.67, abs=0.01)  # the mean of sqrt(weight), not sqrt(3)


def test_one_weight_per_attribute_set():
    work = workloads.weighted_sets("prefix", 4, d=6, seed=3)
    assert len(work.blocks) == 6 + 15
    assert {b.weight for b in work.blocks} <= {1.0, 2.0, 3.0, 4.0, 5.0}
    assert work.queries == workloads.one_and_two_way("prefix", 4, d=6).queries


def test_gaussian_baseline_when_all_attributes_are_asked_for():
    assert lemma(4, 3, 3) == pytest.approx(1.0)
    assert lemma(5, 400, 2) / comb(400, 2) ** 0.5 == pytest.approx(0.64, abs=0.02)


@pytest.mark.long
def test_a_process_of_its_own_has_its_own_memory():
    work = workloads.one_and_two_way("prefix", 4, d=3)
    here, there = measure(work, gap=1e-5), measure(work, gap=1e-5, fresh=True)
    assert there.value == here.value
    assert 0 < there.memory_mb <= here.memory_mb * 2


@pytest.fixture
def report(capsys) -> Report:
    options = common.parser("test").parse_args([])
    return Report("test", options, [Column("search", "ours", ".3f")])


SMALL = Workload(Domain.of(a=3, b=2)).marginals(ways=[1, 2])


@pytest.mark.parametrize(
    ("theirs", "failures"),
    [({"querysmasher": 9.0}, 0), ({"querysmasher": 0.1}, 1), ({"wff": 0.1}, 1), ({"querysmasher": 0.1, "wff": 9.0}, 2)],
)
def test_checks_against_published_figures_fail_where_they_should(report, theirs, failures):
    compare(report, {"workload": "small"}, SMALL, theirs, rounding=0.005)
    assert len(report.failures) == failures
    assert (report.finish() != 0) == bool(failures)


def test_figures_that_are_not_comparable_are_not_checked(report):
    compare(report, {"workload": "small"}, SMALL, {"querysmasher": 0.1, "wff": 0.1})
    assert report.failures == []


def test_a_search_that_loses_fails(report):
    check_search(report, {"search": 1.0, "uniform": 1.0})
    assert report.failures == []
    check_search(report, {"search": 1.001, "uniform": 1.0})
    assert len(report.failures) == 1


def test_rounding_counts_as_equal(report):
    check_equal(report, "x", 23.4766, 23.48, published("table4").rounding)
    assert report.failures == []
    check_equal(report, "x", 23.4866, 23.48, published("table4").rounding)
    assert len(report.failures) == 1


@pytest.mark.long
def test_plot_is_written_where_the_extra_is_installed(tmp_path, capsys):
    pytest.importorskip("altair")
    out = tmp_path / "figure.svg"
    run("wff_figure1", f"--ways 1 --sizes 2 --dims 2 5 --out {out}", capsys)
    assert out.read_text().startswith("<svg")


@pytest.mark.long
def test_floors_before_and_after_of_several_runs_are_one_plot(tmp_path, capsys):
    pytest.importorskip("altair")
    _, document = run("floors", "--tables 4 --sizes 10 --only prefix", capsys)
    (prefix,) = document["figures"]
    assert prefix["old_floor"] < prefix["floor"] <= prefix["value"] <= prefix["old"] * (1 + 1e-6)
    earlier, out = tmp_path / "earlier.txt", tmp_path / "figure.svg"
    earlier.write_text(f"floors\n{json.dumps(document)}\n")
    run("floors", f"--tables 4 --sizes 10 --only marginal --add {earlier} --out {out}", capsys)
    assert all(f"{kind} [10]^40" in out.read_text() for kind in ("prefix", "marginal"))


def test_without_the_extra_a_benchmark_says_so_and_goes_on(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "altair", None)
    code, document = run("wff_figure1", f"--ways 1 --sizes 2 --dims 2 --out {tmp_path / 'figure.svg'}", capsys)
    assert (code, document["ok"]) == (0, True)


PREFIXES = Task("small", Domain.of(a=3, b=sized(4, ordered=True), c=sized(5, ordered=True)), (1, 2), 200, prefix=True)


@pytest.mark.parametrize("task", [PREFIXES, replace(PREFIXES, prefix=False)], ids=["prefix", "marginal"])
def test_plain_noise_spends_the_budget_with_the_least_error(task):
    deviations, rmse = shares(task)
    mu = Budget(**BUDGET).mu
    assert sum(s**-2 for s in deviations) == pytest.approx(mu**2)

    def dense(deviations):
        """Squared errors summed over all queries, from their rows."""
        total = 0.0
        for axes, deviation in zip(task.sets, deviations, strict=True):
            added = task.cumulative(axes)
            rows = [np.tri(n) if i in added else np.eye(n) for i, n in enumerate(task.domain.shape[a] for a in axes)]
            total += deviation**2 * np.prod([(row**2).sum() for row in rows])
        return total

    assert rmse == pytest.approx((dense(deviations) / task.workload.queries) ** 0.5)
    rng = np.random.default_rng(0)
    for _ in range(20):
        others = np.array(deviations) * np.exp(rng.normal(0, 0.1, len(deviations)))
        others *= np.sqrt((others**-2.0).sum()) / mu
        assert dense(others) > dense(deviations)


def test_made_up_rows_are_skewed_codes():
    domain = Domain.of(a=3, b=40)
    rows = made_up(domain, 1000)
    for attribute in domain:
        assert set(rows[attribute.name]) <= set(range(attribute.size))
    assert np.median(rows["b"]) < 10
    assert plain(Task("small", domain, (1, 2), 1000))["plain_checksum"] == pytest.approx(3000, rel=0.5)


def test_a_release_can_be_made_from_a_file(tmp_path, capsys):
    names, domain = release_adult.NAMES, workloads.schema("Adult")
    file = tmp_path / "codes.csv"
    columns = made_up(domain, 300, seed=1)
    lines = [",".join(names), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    file.write_text("\n".join(lines))
    task = Task("file", domain, (1,), 0, file, names)
    for name, column in columns.items():
        assert (task.columns()[name] == column).all()


@pytest.mark.long
def test_order_of_table_2_is_that_of_the_noise():
    """With every table measured once no error is bias: conditional allocation has less noise, exactly."""
    source = datasets.load("adult", Namespace(data=None, attributes=5, rows=500))
    sets = list(combinations(range(5), 3))
    task, deviations = aim_table2.Task(source, tuple(sets), Budget(**BUDGET)), {}
    for strategy in ("lazy+CRP", "lazy+IID"):
        _, estimates = aim_table2.run(task, strategy, 1, len(sets))
        deviations[strategy] = sum(float(np.sqrt(estimates.variances(s)).sum()) for s in sets)
    assert 0.8 < deviations["lazy+CRP"] / deviations["lazy+IID"] < 1


@pytest.mark.long
def test_a_miss_of_table_2_fails(capsys, monkeypatch):
    """With both allocations exchanged, the order is not the published one."""
    exchanged = {"lazy+CRP": (aim_table2.iid, False), "lazy+IID": (aim_table2.crp, False)}
    monkeypatch.setattr(aim_table2, "STRATEGIES", exchanged | {"full+IID": (aim_table2.crp, True)})
    code, document = run("aim_table2", OTHERS["aim_table2"], capsys)
    assert (code, document["ok"]) == (1, False)


def test_misses_of_table_2_are_told():
    """Errors count where every table was measured, updates where they take a second or more."""
    figures = [
        {"strategy": s, "updating": x, "error": e, "rounds": 3, "tables": 3}
        for s, x, e in (("lazy+CRP", 1.0, 0.3), ("lazy+IID", 4.0, 0.2), ("full+IID", 3.0, 0.2))
    ]
    order, updates = aim_table2.missed(figures)
    assert order == "the error of CRP, 0.3000, is not below that of IID, 0.2000"
    assert updates == "updates of lazy+IID are 0.75 times as fast as full ones"
    assert aim_table2.missed([f | {"tables": 4} for f in figures]) == [updates]
    assert aim_table2.missed([f | {"updating": f["updating"] / 9} for f in figures]) == [order]


@pytest.mark.parametrize("annealed", [(), (1,), (2, 3, 4, 5), range(1, 1000)], ids=str)
def test_rounds_of_aim_spend_exactly_the_budget(annealed):
    budget, cost, shares = 0.3, 0.0, []
    for i, (sigma, epsilon, spent, anneal) in enumerate(aim_pgm.rounds(budget, attributes=5)):
        cost += (1 if epsilon else 5) / sigma**2 + aim_pgm.CHOICE_RATE * epsilon**2
        assert cost == pytest.approx(spent * budget)
        shares.append(1 / sigma**2)
        if i in annealed:
            anneal()
    assert cost == pytest.approx(budget)
    assert shares[1] == pytest.approx(shares[0])
    # Of 80 shares single tables take 4.5; then 74 rounds of one share, and 1.5 are left for the last.
    assert len(shares) == 76 if not annealed else len(shares) < 76


@pytest.mark.parametrize("peer", [aim_pgm, estimate_peers], ids=lambda m: m.__name__)
def test_without_mbi_its_benchmarks_say_so(peer, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jax", None)
    assert peer.main([]) == 0
    assert capsys.readouterr().out.strip() == peer.MISSING


@pytest.mark.slow
def test_aim_with_a_graphical_model_runs(capsys):
    pytest.importorskip("jax")
    code, document = run("aim_pgm", "--attributes 3 --rows 2000 --iterations 50 --epsilons 5", capsys)
    assert (code, document["ok"]) == (0, True)
    assert document["figures"][0]["rounds"] >= 1


def test_a_data_set_is_read_from_a_folder_or_a_file_with_its_smallest_columns(tmp_path):
    sizes = {f"c{i}": 40 - i for i in range(30)}
    columns = made_up(Domain.of({name: sized(n) for name, n in sizes.items()}), 200, seed=1)
    table = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    (tmp_path / "loans-domain.json").write_text(json.dumps(sizes))
    (tmp_path / "loans.csv").write_text("\n".join(table))
    from_csv = datasets.load("loans", Namespace(data=tmp_path, attributes=None, rows=0))
    with ZipFile(tmp_path / "loans.zip", "w") as file:
        file.write(tmp_path / "loans.csv", "loans.csv")
    (tmp_path / "loans.csv").unlink()
    from_zip = datasets.load("loans", Namespace(data=tmp_path / "loans.zip", attributes=3, rows=0))
    assert from_csv.domain.names == tuple(f"c{i}" for i in range(10, 30))
    assert from_zip.domain.names == ("c10", "c11", "c12")
    for place, name in enumerate(from_zip.domain.names):
        for source in (from_csv, from_zip):
            counts = next(source.count([(place,)]))
            assert counts.tolist() == np.bincount(columns[name], minlength=sizes[name]).tolist()


@pytest.mark.parametrize("name", datasets.SIZES)
def test_every_data_set_can_be_made_up(name):
    source = datasets.load(name, Namespace(data=None, attributes=4, rows=100))
    assert source.domain.shape == tuple(datasets.SIZES[name].values())[:4]
    assert next(source.count([()])) == 100
    assert datasets.ROWS[name] > 1000


def test_latent_classes_depend_on_each_other():
    domain = Domain.of(a=5, b=8)
    columns = datasets.latent_classes(domain, 20_000)
    assert {name: set(column) for name, column in columns.items()} == {"a": set(range(5)), "b": set(range(8))}
    joint = np.histogram2d(columns["a"], columns["b"], bins=(5, 8))[0] / 20_000
    # Independent attributes would be at about sqrt(28 / 20,000) / 2 = 0.02.
    assert 0.5 * np.abs(joint - np.outer(joint.sum(axis=1), joint.sum(axis=0))).sum() > 0.1


def test_expected_error_of_a_batch_is_that_of_the_standard_errors_of_its_release():
    domain = Domain.of(a=3, b=2, c=3, d=5)
    task = aim_tradeoff.Task(Codes(domain, made_up(domain, 300)), (2, 3), 1.0)
    batch = aim_tradeoff.Batch.of(task)
    release = batch.plan.run(task.source, random_source=SeededRandomSource(1))
    sums = [release.std_errors(*(domain.names[a] for a in s)).sum() for s in task.sets]
    assert batch.error(task) == pytest.approx(sqrt(2 / pi) * np.mean(sums) / 300)
    assert batch.numbers(task) == 1 + 9 + (2 + 4 + 8 + 2 + 4 + 8) + (4 + 8 + 16 + 8)


FOUND = {"batch": {"told_ratio": 1.01, "slack": 0.02}, "best": {"ratio": 0.99, "seconds": 1.0, "memory_mb": 1.0}}


@pytest.mark.parametrize(
    ("epsilon", "changes", "failures"),
    [
        (1.0, {}, 0),
        (1.0, {"best": {"ratio": 1.01}}, 1),
        (10.0, {"best": {"ratio": 1.01}}, 0),
        (10.0, {"best": {"ratio": 1.06}}, 1),
        (1.0, {"batch": {"told_ratio": 0.97}}, 1),
    ],
)
def test_adaptive_answers_that_lose_to_a_batch_fail(report, epsilon, changes, failures):
    entries = {method: figure | changes.get(method, {}) for method, figure in FOUND.items()}
    aim_tradeoff.check(report, "acs", epsilon, entries)
    assert len(report.failures) == failures


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_completed_tables_may_lose_what_comparing_costs(report, epsilon, capsys):
    """9% of the budget is not spent as a plan would: 1 / sqrt(0.91) = 1.0483."""
    for ratio in (1.03, 1.04, 1.05):
        entries = {"batch": FOUND["batch"], "survey": FOUND["best"] | {"ratio": ratio}}
        aim_tradeoff.check(report, "nltcs", epsilon, entries)
    assert report.failures == [f"nltcs, epsilon {epsilon:g}: error of survey / batch is 1.0500, not below 1.048"]
    assert "MISSED" not in capsys.readouterr().out


def test_rounds_are_explained_by_their_cells_and_their_number():
    rng = np.random.default_rng(0)
    number, cells = np.arange(2.0, 42.0), rng.integers(1, 10**6, 40)
    flat = aim_rounds.explained(np.stack([number, cells, 0.01 + 1e-8 * cells], axis=1))
    growing = aim_rounds.explained(np.stack([number, cells, 0.01 + 1e-8 * cells + 0.002 * number], axis=1))
    assert flat["growth"] == pytest.approx(1)
    assert flat["slope"] == pytest.approx(0, abs=1e-6)
    assert growing["slope"] == pytest.approx(2000)
    assert growing["growth"] > 2
