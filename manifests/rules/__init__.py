"""Rules that span keys and documents, one idea a module; `manifests.validate` runs them."""
