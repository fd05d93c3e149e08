"""The jail: what keeps a submission's process from everything but its socket.

Theory of operation
    The server prepares all that is the same for every submission: it gives up root, enters
    namespaces, opens what Landlock is to grant. A child is then a fork that takes a few more
    steps, none of which it can take back, and in this order, because each takes away what the one
    before still needed:

    1. it will die when the server does; of all file descriptors it keeps the socket (3), the
       pipe on which it says that it is confined (4) and Landlock's ruleset (5);
    2. in its new namespaces, a folder of its own;
    3. no capabilities, no way to regain any, no debugger;
    4. Landlock: which files, signals and sockets it may use;
    5. limits on memory, time, threads and files;
    6. seccomp: which system calls it may make.

    Only then is the submission's source sent to it. Which of these layers a machine offers decides
    the rung (`rung.py`), found by trying (`probe.py`). The steps themselves are in `confine.py`.

    To write a test that a layer matters, leave it out: `Server(without=…)`.
"""
