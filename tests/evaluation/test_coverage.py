"""Small versions of coverage_study.py, with margins of three standard errors of the simulation."""

from coverage_study import next_site_coverage, paired_behaviour, trained_coverage, trained_level


def test_the_next_site_lies_in_its_interval_about_95_times_in_100():
    result = next_site_coverage(200, n_sites=10, tau=0.4)
    assert 0.90 <= result["next_site"] <= 0.99
    assert result["next_site"] > result["textbook"]  # why we do not use the textbook formula
    assert min(result["pooled"], result["bootstrap"], result["site"]) >= 0.90


def test_equal_sites_are_covered_too():
    assert next_site_coverage(60, n_sites=8, tau=0.0)["next_site"] >= 0.95


def test_sites_that_are_trained_on_one_another_are_covered():
    result = trained_coverage(150, n_sites=6, signal=0.5)
    assert result["correlation"] > 0.1  # why the intervals of the mean are wider than those of independent sites
    assert min(result["pooled"], result["bootstrap"], result["next_site"]) >= 0.95 - 3 * (0.95 * 0.05 / 150) ** 0.5


def test_the_paired_test_holds_its_level():
    result = paired_behaviour(250, n_sites=8, tau=0.3, n_boot=100)
    assert result["rejected"] <= 0.05 + 3 * (0.05 * 0.95 / 250) ** 0.5
    assert result["covered"] >= 0.91


def test_the_paired_test_holds_its_level_where_sites_are_trained_on_one_another():
    rejected = trained_level(300, n_sites=10, signal=0.0)
    assert rejected["sign_flip"] > 0.1  # why that test alone is not enough
    assert rejected["left_out"] <= 0.05 + 3 * (0.05 * 0.95 / 300) ** 0.5


def test_a_real_gap_is_found():
    assert paired_behaviour(100, n_sites=10, tau=0.2, gap=0.8, n_boot=50)["rejected"] > 0.7
