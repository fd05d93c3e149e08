"""The jail: confines a submission's process to its socket.

Theory of operation
    The server prepares everything that all submissions share: it gives up root, enters namespaces,
    and opens the files that Landlock will grant. A child is a fork of the server that takes a few
    more irreversible steps. Their order matters, since each step takes away something that the step
    before it still needed:

    1. tie the child to the server, so that it is killed when the server ends; close all file
       descriptors but the socket (3), the pipe on which the child reports that it is confined (4),
       and Landlock's ruleset (5);
    2. mount the child's own folder in its new namespaces;
    3. drop all capabilities and every way to regain them, and refuse debuggers;
    4. Landlock: restrict files, signals and sockets;
    5. limit memory, time, threads and files;
    6. seccomp: restrict system calls.

    Only then does the child receive the submission's source. The server tries out which layers the
    machine offers (`probe.py`), and these decide the isolation level (`isolation.py`). The steps
    themselves are in `confine.py`.

    To test that a layer matters, leave it out: `ServerHandle(without=…)`.
"""
