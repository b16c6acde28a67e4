# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

# For packages of others that are built on ROS 2 from wheels: fixes their imported targets when all of them are there.
set(cacheinf_existing_includes "${CMAKE_CURRENT_LIST_DIR}/../cmake/existing_includes.cmake")
cmake_language(DEFER CALL include "${cacheinf_existing_includes}")
