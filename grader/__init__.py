"""From a submission to a report: reading, confining, judging, rendering."""
