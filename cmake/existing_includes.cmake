# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

# ROS 2 from PyPI: imported message targets name include folders of the machine that the wheels were built on, and CMake
# refuses folders that do not exist.
get_property(imported_targets DIRECTORY PROPERTY IMPORTED_TARGETS)
foreach(imported ${imported_targets})
  get_target_property(folders ${imported} INTERFACE_INCLUDE_DIRECTORIES)
  if(NOT folders)
    continue()
  endif()
  set(existing "")
  foreach(folder IN LISTS folders)
    if(EXISTS "${folder}" OR folder MATCHES "^\\$<")
      list(APPEND existing "${folder}")
    endif()
  endforeach()
  set_target_properties(${imported} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${existing}")
endforeach()

# The same for what is exported here: the folders of this machine's Python and numpy are of no use on another one (and
# may lie in the source tree, in .venv, which CMake refuses too).
set(own ${PROJECT_NAME}__rosidl_generator_py)
if(TARGET ${own})  # packages without messages have none
  get_target_property(folders ${own} INTERFACE_INCLUDE_DIRECTORIES)
  list(TRANSFORM folders REPLACE "^([^$].*)$" "$<BUILD_INTERFACE:\\1>")
  set_target_properties(${own} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${folders}")
endif()
