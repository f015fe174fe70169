#!/bin/sh
# Writes samples/site.yaml: a small site of the machines in samples/site, which share a storage pool.
#
# The machines are synthetic (`lstopo -i 'pack:2 [numa(memory=68719476736)] core:8 pu:2' --of xml`), with PCI and
# operating system devices added by hand. Those with HBM, CXL memory and NVLink are for the queries of docs/topology.md.
set -eu
cd "$(dirname "$0")/site"
{
    echo '# Made by samples/make-site.sh; edit that, or the files in samples/site.'
    stead topology hwloc compute.xml --name 'compute{n}' --count 4 --shared 4 --vcpu-ratio 4 --aggregate 5ead0000-0000-4000-8000-000000000001
    stead topology hwloc gpu.xml --name 'gpu{n}' --count 2 --aggregate 5ead0000-0000-4000-8000-000000000001
    stead topology hwloc small.xml --name 'small{n}' --count 2 --shared all --vcpu-ratio 4 --aggregate 5ead0000-0000-4000-8000-000000000001
    cat storage.yaml
} > ../site.yaml
