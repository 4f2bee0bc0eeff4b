"""The sections of the report that need no brain, one file each: ``ReportData`` in, `Section` out."""
