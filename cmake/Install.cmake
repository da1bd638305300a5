# The native C++ library: `cmake --install BUILD --prefix WHERE`, then find_package(tilekiln) and tilekiln::runtime.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# One archive without dependencies, out of the object files that the libraries of src/ are made of.
set(runtime_parts kiln_base kiln_cpu kiln_op_references kiln_op_kernels kiln_bundle kiln_runtime)
add_library(tilekiln_runtime STATIC src/runtime/native/model.cc)
add_library(tilekiln::runtime ALIAS tilekiln_runtime)
target_compile_features(tilekiln_runtime PUBLIC cxx_std_17)  # what the public header needs
target_include_directories(tilekiln_runtime
  PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
  PRIVATE src)
target_link_libraries(tilekiln_runtime PRIVATE $<BUILD_INTERFACE:kiln_flags>)
foreach(part IN LISTS runtime_parts)
  target_sources(tilekiln_runtime PRIVATE $<TARGET_OBJECTS:${part}>)
endforeach()
set_target_properties(tilekiln_runtime PROPERTIES EXPORT_NAME runtime)

install(TARGETS tilekiln_runtime EXPORT tilekilnTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/tilekiln DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tilekiln)
install(EXPORT tilekilnTargets NAMESPACE tilekiln:: DESTINATION ${package_dir})
configure_package_config_file(cmake/tilekilnConfig.cmake.in "${CMAKE_BINARY_DIR}/tilekilnConfig.cmake"
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file("${CMAKE_BINARY_DIR}/tilekilnConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/tilekilnConfig.cmake" "${CMAKE_BINARY_DIR}/tilekilnConfigVersion.cmake"
  DESTINATION ${package_dir})

# What is installed, used by the example as by a stranger.
enable_testing()
string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
add_executable(make_bundle_seeds tests/fuzz/make_bundle_seeds.cc)
target_link_libraries(make_bundle_seeds PRIVATE kiln_compile)
add_test(NAME install COMMAND ${CMAKE_COMMAND} "-DSOURCE=${CMAKE_CURRENT_SOURCE_DIR}" "-DBUILD=${CMAKE_BINARY_DIR}"
  "-DCXX=${CMAKE_CXX_COMPILER}" "-DFLAGS=${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${build_type}}"
  "-DMAKE_BUNDLES=$<TARGET_FILE:make_bundle_seeds>" -P "${CMAKE_CURRENT_SOURCE_DIR}/tests/native/install.cmake")
