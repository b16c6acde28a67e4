# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

# The Python package beside what rosidl generated for it, the executables, and what `ros2 launch` reads.

# What an editable install leaves in the source tree is built anew here.
install(DIRECTORY ${PROJECT_NAME}/ DESTINATION ${PYTHON_INSTALL_DIR}/${PROJECT_NAME}
  PATTERN "__pycache__" EXCLUDE
  PATTERN "*.so" EXCLUDE
  PATTERN "msg" EXCLUDE)

install(PROGRAMS scripts/cacheinf DESTINATION bin)
install(PROGRAMS scripts/matcher scripts/inference scripts/server scripts/replay scripts/cached_inference
  scripts/catalog_inference scripts/side_by_side
  DESTINATION lib/${PROJECT_NAME})
install(DIRECTORY launch config DESTINATION share/${PROJECT_NAME} PATTERN "__pycache__" EXCLUDE)

# Fast DDS 2, as in Jazzy, spells an element of profiles in another way, and takes no file in which it does not know one.
find_library(FAST_DDS NAMES fastdds fastrtps NAMES_PER_DIR  # of the first prefix that has either
  PATHS ENV AMENT_PREFIX_PATH PATH_SUFFIXES lib NO_DEFAULT_PATH NO_CACHE)
if(FAST_DDS MATCHES "libfastrtps")
  foreach(profiles fastdds fastdds_udp fastdds_small)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS config/${profiles}.xml)
    file(READ config/${profiles}.xml text)
    string(REPLACE "heartbeat_period" "heartbeatPeriod" text "${text}")
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/config/${profiles}.xml "${text}")
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/config/${profiles}.xml DESTINATION share/${PROJECT_NAME}/config)
  endforeach()
endif()
