"""What ``make run`` does: Stead on the data of this checkout, with the sample site in it, until Ctrl-C.

It is embedded: SQLite in .stead, a token of its own, this machine only. A second run finds its data again.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parent.parent
SITE = Path("samples/site.yaml")
PORT = os.environ.get("PORT", "8778")

WELCOME = """
  Stead listens on  {url}
  admin token       {admin_token}
  its data is in    {data_dir}

Try, in another terminal, in this directory:

  {stead} tree
  {stead} candidates '{query}'
  {stead} claim '{query}' --project demo --user me

Ctrl-C stops it.
"""

# Four cores, their memory and a network function, all of one NUMA node.
QUERY = "resources_A=PCPU:4,MEMORY_MB:8192&resources_N=SRIOV_NET_VF:1&same_subtree=_A,_N&group_policy=none"


def main() -> int:
    """The exit code: 0 after Ctrl-C."""
    os.chdir(CHECKOUT)
    os.environ.pop("STEAD_URL", None)
    os.environ.pop("STEAD_TOKEN", None)
    os.environ["STEAD_DATA_DIR"] = str(Path(".stead").absolute())
    require_embedded()
    stead = [str(Path(sys.executable).with_name("stead"))]
    command = [*stead, "--json", "serve", "--port", PORT, "--show-token"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        return watch(server, stead)
    except KeyboardInterrupt:
        print("\nstopping ...")
        return 0
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is being stopped already
        server.terminate()
        server.wait()


def require_embedded() -> None:
    """Leave alone what this machine has configured: this is for trying Stead, on data of its own."""
    from stead.config import ConfigError, load

    try:
        embedded = load().embedded
    except ConfigError:
        embedded = False
    if not embedded:
        sys.exit("make run is for trying Stead, but this machine has a placement.conf: use `stead serve`")


def watch(server: subprocess.Popen[str], stead: list[str]) -> int:
    """Load the sample, say what to try, and stay until the server ends."""
    assert server.stdout is not None
    told = server.stdout.readline()
    if not told:  # it has said why on stderr
        return server.wait()
    loaded = subprocess.run([*stead, "topology", "apply", str(SITE)], check=False)
    if loaded.returncode:
        return loaded.returncode
    print(WELCOME.format(**json.loads(told), query=QUERY, stead=".venv/bin/stead --data-dir .stead"), flush=True)
    return server.wait()


if __name__ == "__main__":
    sys.exit(main())
