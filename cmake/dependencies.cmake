# Everything that is not ours. Debian packages by find_package or pkg-config; LibTorch and llama.cpp, which may be
# absent, as the two imported targets aerie::torch and aerie::llama.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(CURL REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(CLI11 REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(isal REQUIRED IMPORTED_TARGET libisal)
if(AERIE_TESTS)
  find_package(GTest REQUIRED)
endif()

# --- LibTorch: an own imported target, because the wheel's TorchConfig drags in what the program does not use -------
if(AERIE_TORCH AND TORCH_ROOT AND EXISTS "${TORCH_ROOT}/lib/libtorch_cpu.so")
  foreach(name torch_cpu c10)
    add_library(aerie_${name} SHARED IMPORTED)
    set_target_properties(aerie_${name} PROPERTIES IMPORTED_LOCATION "${TORCH_ROOT}/lib/lib${name}.so")
  endforeach()
  add_library(aerie_torch INTERFACE)
  # The wheel carries headers of its own fmt (another version) in the same folder: ours must be found first, or nothing links.
  find_path(AERIE_FMT_INCLUDE fmt/core.h REQUIRED)
  file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/torch-first")
  file(CREATE_LINK "${AERIE_FMT_INCLUDE}/fmt" "${CMAKE_BINARY_DIR}/torch-first/fmt" SYMBOLIC)
  target_include_directories(aerie_torch SYSTEM INTERFACE
    "${CMAKE_BINARY_DIR}/torch-first" "${TORCH_ROOT}/include" "${TORCH_ROOT}/include/torch/csrc/api/include")
  target_link_libraries(aerie_torch INTERFACE aerie_torch_cpu aerie_c10)
  if(EXISTS "${TORCH_ROOT}/lib/libtorch_cuda.so")
    foreach(name torch_cuda c10_cuda)
      add_library(aerie_${name} SHARED IMPORTED)
      set_target_properties(aerie_${name} PROPERTIES IMPORTED_LOCATION "${TORCH_ROOT}/lib/lib${name}.so")
    endforeach()
    # Kernels register themselves on load; nothing refers to them by name.
    target_link_libraries(aerie_torch INTERFACE -Wl,--no-as-needed aerie_torch_cuda aerie_c10_cuda -Wl,--as-needed)
    target_compile_definitions(aerie_torch INTERFACE AERIE_TORCH_CUDA=1)
  endif()
  add_library(aerie::torch ALIAS aerie_torch)
  find_package(OpenMP REQUIRED COMPONENTS CXX)  # of the trainer's own kernels, which share LibTorch's threads
  message(STATUS "LibTorch: ${TORCH_ROOT}")
else()
  message(STATUS "LibTorch: none (rooms train, draft, bench are left out); scripts/bootstrap fetches it")
endif()

# --- llama.cpp: its own package file, and the common library that upstream builds but does not export ---------------
if(AERIE_LLAMA)
  if(AERIE_LLAMA_PREFIX)
    list(PREPEND CMAKE_PREFIX_PATH "${AERIE_LLAMA_PREFIX}")
  endif()
  find_package(Llama QUIET)
  find_library(AERIE_LLAMA_COMMON llama-common HINTS ${LLAMA_LIB_DIR})
  find_path(AERIE_LLAMA_PRIVATE common/common.h HINTS ${LLAMA_INCLUDE_DIR}/llama-private)
  if(Llama_FOUND AND AERIE_LLAMA_COMMON AND AERIE_LLAMA_PRIVATE)
    add_library(aerie_llama INTERFACE)
    target_include_directories(aerie_llama SYSTEM INTERFACE "${AERIE_LLAMA_PRIVATE}/common" "${AERIE_LLAMA_PRIVATE}"
      "${AERIE_LLAMA_PRIVATE}/vendor")
    # Upstream does not install libllama-common, so its own search path leads to a build tree that is gone: the program
    # itself must ask for ggml, which its search path finds.
    target_link_libraries(aerie_llama INTERFACE ${AERIE_LLAMA_COMMON} llama ggml::ggml
      "-Wl,--push-state,--no-as-needed,${LLAMA_LIB_DIR}/libggml.so,${LLAMA_LIB_DIR}/libggml-base.so,--pop-state")
    add_library(aerie::llama ALIAS aerie_llama)
    list(APPEND CMAKE_BUILD_RPATH ${LLAMA_LIB_DIR})
    message(STATUS "llama.cpp: ${LLAMA_LIB_DIR} (${LLAMA_BUILD_COMMIT})")
  else()
    message(STATUS "llama.cpp: none (the embedded target is left out); scripts/bootstrap builds it")
  endif()
endif()

# For the report page: the build for plain script elements, minified if there is one. Absent: the page shows tables only.
find_file(AERIE_CHART_JS NAMES chart.umd.min.js chart.umd.js chart.min.js Chart.min.js
  PATHS /usr/share/javascript/chart.js /usr/share/nodejs/chart.js/dist NO_DEFAULT_PATH)
