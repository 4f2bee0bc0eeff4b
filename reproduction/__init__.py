"""The CORE paper, table by table, on one dataset: `make paper DATA=ABIDE_pcp OUT=paper`.

Not part of the installed package: it runs methods of `brainroam` as anybody could, and puts published numbers beside
ours.
"""
