#!/bin/sh
# A policy's program: it reads a plan and allows no host of the zone `south` to be touched.
# What it needs is jq; without it the status is not 0, and the plan is refused.
set -eu
jq --compact-output '{findings: [
  .fleets[] | .hosts as $hosts
  | .steps[] | select($hosts[.host].labels.zone == "south")
  | {summary: "The zone south is not to be touched", detail: "\(.kind) on \(.host)"}
] | unique}'
