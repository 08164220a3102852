// SPDX-License-Identifier: Apache-2.0
#include "libdlpi/error.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

namespace sluice::dlpi {
namespace {

using namespace wire::dlpi;  // NOLINT: the specification's names

struct ErrorText {
  int error;
  std::string_view text;
};

constexpr std::array error_texts{
    ErrorText{DL_BADSAP, "the SAP is bad"},
    ErrorText{DL_BADADDR, "the address is of the wrong format or invalid"},
    ErrorText{DL_ACCESS, "permission denied by the link"},
    ErrorText{DL_OUTSTATE, "the handle is in the wrong state for this call"},
    ErrorText{DL_BADCORR, "no such connection is waiting"},
    ErrorText{DL_BADDATA, "the message is empty or larger than the link takes"},
    ErrorText{DL_UNSUPPORTED, "the link does not supply this service"},
    ErrorText{DL_BADPPA, "there is no such physical point of attachment"},
    ErrorText{DL_BADPRIM, "the link does not know this primitive"},
    ErrorText{DL_BADQOSPARAM, "a quality-of-service parameter is bad"},
    ErrorText{DL_BADQOSTYPE, "the quality-of-service structure is of the wrong type"},
    ErrorText{DL_BADTOKEN, "the token names no stream"},
    ErrorText{DL_BOUND, "the SAP is taken"},
    ErrorText{DL_INITFAILED, "the physical link could not be initialised"},
    ErrorText{DL_NOADDR, "the link could not allocate an address"},
    ErrorText{DL_NOTINIT, "the physical link is not initialised"},
    ErrorText{DL_UNDELIVERABLE, "the link is down: the message was not sent"},
    ErrorText{DL_NOTSUPPORTED, "the link knows this primitive but does not support it"},
    ErrorText{DL_TOOMANY, "a limit of the link is reached"},
    ErrorText{DL_NOTENAB, "it is not enabled"},
    ErrorText{DL_BUSY, "other streams use this physical point of attachment"},
    ErrorText{DL_NOAUTO, "automatic XID and TEST responses are not supported"},
    ErrorText{DL_NOXIDAUTO, "automatic XID responses are not supported"},
    ErrorText{DL_NOTESTAUTO, "automatic TEST responses are not supported"},
    ErrorText{DL_XIDAUTO, "the link answers XID itself"},
    ErrorText{DL_TESTAUTO, "the link answers TEST itself"},
    ErrorText{DL_PENDING, "connect indications are waiting"},
    ErrorText{DLPI_SUCCESS, "success"},
    ErrorText{DLPI_EINVAL, "invalid argument"},
    ErrorText{DLPI_ELINKNAMEINVAL, "invalid link name"},
    ErrorText{DLPI_ENOLINK, "there is no such link"},
    ErrorText{DLPI_EBADLINK, "this is no DLPI link"},
    ErrorText{DLPI_EINHANDLE, "invalid handle"},
    ErrorText{DLPI_ETIMEDOUT, "timed out"},
    ErrorText{DLPI_EVERNOTSUP, "unsupported DLPI version"},
    ErrorText{DLPI_EMODENOTSUP, "the link does not offer connectionless service"},
    ErrorText{DLPI_EUNAVAILSAP, "the SAP is not available"},
    ErrorText{DLPI_FAILURE, "the operation failed"},
    ErrorText{DLPI_ENOTSTYLE2, "a link opened as style 2 says that it is style 1"},
    ErrorText{DLPI_EBADMSG, "bad message from the link"},
    ErrorText{DLPI_ERAWNOTSUP, "the link does not support raw mode"},
    ErrorText{DLPI_ENOTEINVAL, "invalid notification type"},
    ErrorText{DLPI_ENOTENOTSUP, "the link does not support this notification"},
    ErrorText{DLPI_ENOTEIDINVAL, "invalid notification identifier"},
    ErrorText{DLPI_EIPNETINFONOTSUP, "the link does not support IP observability"},
};

std::string text_of(const Failure& failure) {
  if (failure.error == static_cast<int>(DL_SYSERR)) {
    return std::generic_category().message(failure.system_errno);
  }
  const auto* found = std::ranges::find(error_texts, failure.error, &ErrorText::error);
  // "If the error code is unknown, the string 'Unknown DLPI error' is returned."
  return std::string(found == error_texts.end() ? "Unknown DLPI error" : found->text);
}

}  // namespace

std::string dlpi_strerror(const Failure& failure) {
  return failure.detail.empty() ? text_of(failure) : text_of(failure) + ": " + failure.detail;
}

}  // namespace sluice::dlpi
