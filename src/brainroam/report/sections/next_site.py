"""How would it do at my site: what the next one may see, and how unlike these sites it may be."""

import math

import pandas as pd

from brainroam.report.data import ReportData
from brainroam.report.page import render
from brainroam.report.section import Section
from brainroam.report.tables import Column, table

RANGES = {
    "n": ("People at the site", "{:.0f}"),
    "share": ("Share with the condition", "{:.2f}"),
    "age_mean": ("Mean age, years", "{:.1f}"),
    "male": ("Share male", "{:.2f}"),
    "mean_fd_mean": ("Mean motion (FD), mm", "{:.2f}"),
    "volumes_median": ("Volumes", "{:.0f}"),
    "tr": ("TR, s", "{:.2f}"),
}


def next_site_section(data: ReportData) -> Section:
    """The prediction interval, and the range of sites it speaks for."""
    if data.protocol == "cv" or math.isnan(data.summary.next_low):
        return Section("next-site", "The next site", render("no_next_site.html", unit=data.unit))
    sites = pd.DataFrame(data.study["sites"])
    sites["share"] = sites["n_cases"] / sites["n"]
    if "n_male" in sites:
        sites["male"] = sites["n_male"] / sites["n_sex_known"]
    rows = pd.DataFrame(
        {"what": name, "low": show.format(sites[key].min()), "middle": show.format(sites[key].median()),
         "high": show.format(sites[key].max())}
        for key, (name, show) in RANGES.items() if key in sites and sites[key].notna().any()
    )  # fmt: skip
    columns = [
        Column("what", "Of a site"),
        Column("middle", "Median"),
        Column("least", "Lowest"),
        Column("high", "Highest"),
    ]
    rows = rows.rename(columns={"low": "least"})
    html = render(
        "next_site.html",
        summary=data.summary,
        n=len(data.site_aucs),
        unit=data.unit,
        method=data.method,
        ranges=table(rows, columns, "ranges", f"What the {len(sites)} sites of this study are like: is yours?"),
    )
    low, high = data.summary.next_low, data.summary.next_high
    gist = (
        f"The true AUC of {data.method} at {data.next_place} is expected between {low:.2f} and {high:.2f}, if it "
        f"is one "
        f"like these {len(data.site_aucs)}."
    )
    return Section("next-site", f"The next {data.unit}", html, gist=gist)
