"""The proof of iworkflow: conformance on live engines, faults, demo, benchmarks. Unpublished."""
