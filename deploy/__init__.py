"""What a team deploys: image, manifests, rules and dashboards."""
