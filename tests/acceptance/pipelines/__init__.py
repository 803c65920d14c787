"""The shipped pipelines, their scripts run as a runner would run them."""
