"""Manifests for Kubernetes; `kubectl apply -k deploy`."""
