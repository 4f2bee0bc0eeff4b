import pytest

from brainroam.evaluation.stats.families import compared, families, main_method

STUDY = ["fc-ridge", "ensemble", "core", "majority", "core-tp", "core-no-cd", "core[budget=40]", "core[budget=20]"]


def texts(*args, **kwargs):
    return [family.text("loso") for family in families(*args, **kwargs)]


def test_one_reference_is_compared_with_the_others_and_variants_apart():
    assert texts(STUDY) == [
        "Holm over 3 comparisons: core against each other method (loso); ablations and sweeps are corrected "
        "separately.",
        "Holm over 2 comparisons: ablation of core (loso).",
        "Holm over 1 comparison: sweep over budget (loso).",
    ]
    main, ablation, sweep = families(STUDY)
    assert main.pairs == [("fc-ridge", "core"), ("ensemble", "core"), ("majority", "core")]
    assert ablation.pairs == [("core-tp", "core"), ("core-no-cd", "core")]
    assert sweep.pairs == [("core[budget=40]", "core[budget=20]")]


def test_the_reference_goes_by_names_and_never_by_the_order_of_results():
    assert main_method(["ridge", "core", "majority"]) == main_method(["majority", "core", "ridge"]) == "core"
    assert main_method(["svm", "majority", "ridge"]) == "ridge"
    assert main_method(["majority"]) == "majority"
    assert {family.what for family in families(STUDY)} == {family.what for family in families(STUDY[::-1])}


def test_a_reference_can_be_named():
    main = families(STUDY, "fc-ridge")[0]
    assert {against for _, against in main.pairs} == {"fc-ridge"}
    sweep = families(STUDY, "core[budget=40]")[-1]
    assert sweep.pairs == [("core[budget=20]", "core[budget=40]")]


def test_a_variant_as_reference_is_compared_once_with_core():
    pairs = [pair for family in families(STUDY, "core-tp") for pair in family.pairs]
    together = [pair for pair in pairs if set(pair) == {"core", "core-tp"}]
    assert together == [("core", "core-tp")]
    assert "core-tp" in compared(STUDY, "core-tp")


def test_all_pairs_are_one_family():
    (family,) = families(["a", "b", "c"], all_pairs=True)
    assert family.pairs == [("a", "b"), ("a", "c"), ("b", "c")]
    assert family.text("loso") == "Holm over 3 comparisons: every pair of methods (loso)."


@pytest.mark.parametrize(("names", "reference"), [(["core"], None), (["a", "b"], "c")])
def test_nothing_to_compare_is_no_family(names, reference):
    assert families(names, reference) == []


def test_studies_side_by_side_keep_their_reference_and_their_ablations():
    names = ["b: core-tp", "a: confounds", "a: core-tp", "b: core[budget=20]", "b: core[budget=40]", "b: core"]
    names += ["a: core", "a: fc-ridge"]
    main, *others = families(names)
    assert main.pairs == [(name, "a: core") for name in ("a: confounds", "b: core", "a: fc-ridge")]
    assert sorted(family.pairs for family in others) == [
        [("a: core-tp", "a: core")],
        [("b: core-tp", "b: core")],
        [("b: core[budget=40]", "b: core[budget=20]")],
    ]
