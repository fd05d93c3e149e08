"""What is told of a submission: the records, their points, and who reads them in which form."""
