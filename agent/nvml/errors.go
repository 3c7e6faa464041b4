package nvml

import "strconv"

// Error is a return code of NVML that is not success. Ask for one with
// errors.Is(err, nvml.InUse); it also holds for errors of a Client.
//
// Source: nvmlReturn_t of NVIDIA's nvml.h.
type Error int

// The return codes of NVML, with its numbers.
const (
	Uninitialized           Error = 1
	InvalidArgument         Error = 2
	NotSupported            Error = 3 // by this GPU, or in its present mode
	NoPermission            Error = 4
	AlreadyInitialized      Error = 5
	NotFound                Error = 6
	InsufficientSize        Error = 7
	InsufficientPower       Error = 8 // a power cable is not attached
	DriverNotLoaded         Error = 9
	Timeout                 Error = 10
	IRQIssue                Error = 11
	LibraryNotFound         Error = 12
	FunctionNotFound        Error = 13 // this driver does not have the call
	CorruptedInfoROM        Error = 14
	GPUIsLost               Error = 15
	ResetRequired           Error = 16
	OperatingSystem         Error = 17 // the system or a cgroup blocks the device
	LibRMVersionMismatch    Error = 18 // library and kernel module are of different drivers
	InUse                   Error = 19
	OutOfMemory             Error = 20
	NoData                  Error = 21
	VGPUECCNotSupported     Error = 22
	InsufficientResources   Error = 23 // for MIG: no room for it, or the most of its profile are there
	FreqNotSupported        Error = 24
	ArgumentVersionMismatch Error = 25
	Deprecated              Error = 26
	NotReady                Error = 27
	GPUNotFound             Error = 28
	InvalidState            Error = 29
	Unknown                 Error = 999
)

// errorTexts is read only.
var errorTexts = map[Error]string{
	Uninitialized: "NVML is not initialized", InvalidArgument: "invalid argument",
	NotSupported: "not supported by this GPU", NoPermission: "no permission; run as root",
	AlreadyInitialized: "already initialized", NotFound: "not found",
	InsufficientSize: "insufficient size", InsufficientPower: "a power cable of the GPU is not attached",
	DriverNotLoaded: "the NVIDIA driver is not loaded", Timeout: "timeout",
	IRQIssue: "the kernel has an interrupt problem with the GPU", LibraryNotFound: "NVML library not found",
	FunctionNotFound: "this driver does not have the function", CorruptedInfoROM: "the GPU's infoROM is corrupted",
	GPUIsLost: "the GPU is lost", ResetRequired: "the GPU needs a reset",
	OperatingSystem:      "the operating system blocks the device",
	LibRMVersionMismatch: "driver and library have different versions; restart the node or reload the kernel modules",
	InUse:                "the GPU is in use", OutOfMemory: "out of memory", NoData: "no data",
	VGPUECCNotSupported: "not available with ECC on", InsufficientResources: "insufficient resources",
	FreqNotSupported: "frequency not supported", ArgumentVersionMismatch: "the driver does not know this version of an argument",
	Deprecated: "deprecated", NotReady: "not ready", GPUNotFound: "no GPU found", InvalidState: "in the wrong state",
	Unknown: "unknown error of the driver",
}

// Error returns a few words and, for a code without any, its number.
func (e Error) Error() string {
	if text, ok := errorTexts[e]; ok {
		return text
	}
	return "NVML error " + strconv.Itoa(int(e))
}
