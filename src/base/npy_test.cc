#include "base/npy.h"

#include <doctest/doctest.h>

#include <cstring>

namespace kiln {
namespace {

std::vector<uint8_t> with_header(const std::string& header, size_t elements, uint8_t version = 1) {
  std::vector<uint8_t> bytes = {0x93, 'N', 'U', 'M', 'P', 'Y', version, 0};
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) bytes.push_back(static_cast<uint8_t>(header.size() >> (8 * i)));
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.resize(bytes.size() + elements);
  return bytes;
}

}  // namespace

TEST_CASE("npy_round_trips_every_dtype_and_rank") {
  for (int d = 1; d < kNumDTypes; ++d) {
    const auto dtype = static_cast<DType>(d);
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 0, 3}, Shape{1, 2, 3, 4}}) {
      Tensor tensor(dtype, shape);
      for (int64_t i = 0; i < tensor.num_elements(); ++i) store_i64(dtype, tensor.data(), i, i % 2);
      const std::vector<uint8_t> bytes = write_npy(tensor);
      const Result<Tensor> read = read_npy(bytes);
      REQUIRE_MESSAGE(read.ok(), read.status().message());
      CHECK((bytes.size() - (tensor.bytes() * (dtype == DType::kBF16 ? 2 : 1))) % 64 == 0);
      if (dtype != DType::kBF16)
        CHECK(read.value() == tensor);
      else
        CHECK(read.value().dtype() == DType::kF32);
    }
  }
}

TEST_CASE("npy_takes_versions_and_spacings_that_others_write") {
  CHECK(read_npy(with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", 24)).ok());
  CHECK(read_npy(with_header("{\"shape\": (2,), \"descr\":'|u1', \"fortran_order\":False, }\n", 2, 2)).ok());
  CHECK(read_npy(with_header("{'shape':(), 'descr': '<i8', 'fortran_order': False}", 8, 3)).ok());
}

TEST_CASE("npy_refuses_what_it_cannot_read") {
  struct Case {
    std::vector<uint8_t> bytes;
    Code code;
  };
  const Case cases[] = {
      {{}, Code::kNotAModel},
      {{'P', 'K', 3, 4, 0, 0, 0, 0, 0, 0, 0, 0}, Code::kNotAModel},
      {{0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 255, 255}, Code::kTruncated},
      {with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", 23), Code::kTruncated},
      {with_header("{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", 4), Code::kUnsupported},
      {with_header("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", 8), Code::kUnsupported},
      {with_header("{'descr': '<f4', 'fortran_order': True, 'shape': (1,)}", 4), Code::kUnsupported},
      {with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", 4), Code::kUnsupported},
      {with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999)}", 4),
       Code::kUnsupported},
      {with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", 4), Code::kUnsupported},
      {with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1", 4), Code::kUnsupported},
      {with_header("{}", 4), Code::kUnsupported},
  };
  for (const Case& c : cases) CHECK(read_npy(c.bytes).status().code() == c.code);
}

}  // namespace kiln
