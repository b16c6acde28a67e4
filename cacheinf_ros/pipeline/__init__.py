"""One frame without ROS: which frame is next, what is reusable for it, the run, and how the node is doing."""
