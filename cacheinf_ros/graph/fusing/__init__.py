"""The parts of :func:`cacheinf_ros.graph.fuse.fuse`: a rule for each pair of operators that can be one."""
