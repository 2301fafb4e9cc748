"""The dual of a kernel SVM by working sets: all rows, nested subsamples, rows in spatial order."""
