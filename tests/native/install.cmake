# ctest: installs the C++ library, builds examples/cpp-native against it as a user would, and runs it on a bundle.
#   cmake -DSOURCE=… -DBUILD=… -DCXX=… -DFLAGS=… -DMAKE_BUNDLES=… -P install.cmake
set(work "${BUILD}/install_test")
file(REMOVE_RECURSE "${work}")

function(must_run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN} gave ${code}:\n${out}")
  endif()
  set(out "${out}" PARENT_SCOPE)
endfunction()

must_run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${work}/prefix")
must_run("${CMAKE_COMMAND}" -S "${SOURCE}/examples/cpp-native" -B "${work}/build" "-DCMAKE_PREFIX_PATH=${work}/prefix"
  "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_CXX_FLAGS=${FLAGS}")
must_run("${CMAKE_COMMAND}" --build "${work}/build")
must_run("${MAKE_BUNDLES}" "${work}/bundles")
must_run("${work}/build/run_bundle" "${work}/bundles/seed0.kiln")  # a softmax over rows of five equal numbers
if(NOT out MATCHES "y: 10 values, largest 0.2 at 0")
  message(FATAL_ERROR "run_bundle printed:\n${out}")
endif()

foreach(bad_file "${SOURCE}/README.md" "${work}/no_such.kiln" "${work}")
  execute_process(COMMAND "${work}/build/run_bundle" "${bad_file}" RESULT_VARIABLE code ERROR_VARIABLE error)
  if(NOT code EQUAL 1 OR NOT error MATCHES "(NOT_A_MODEL|NOT_FOUND|TRUNCATED): ")
    message(FATAL_ERROR "run_bundle ${bad_file} gave ${code}: ${error}")
  endif()
endforeach()
