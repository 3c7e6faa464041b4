package gpu

import "strconv"

// XidInfo says what one Xid, an error code of NVIDIA's driver, means.
type XidInfo struct {
	Code    int
	Name    string // a few words, as in NVIDIA's catalogue
	Meaning string // what happened, one sentence
	Action  string // what to do, one sentence
	Healthy bool   // the GPU may still be given to containers
}

// Xid tells of one code. Healthy is as NVIDIA's device plugin decides it: the
// codes 13, 31, 43, 45, 68 and 109 are an application's, every other one,
// known or not, makes the GPU unhealthy. Code 0 is no error.
//
// Source: NVIDIA, "Xid errors", and the plugin's list of skipped codes.
func Xid(code int) XidInfo {
	if code == 0 {
		return XidInfo{Name: "none", Meaning: "The driver has reported no error.", Action: "Nothing to do.", Healthy: true}
	}
	if x, ok := xids[code]; ok {
		x.Code = code
		return x
	}
	return XidInfo{
		Code: code, Name: "Xid " + strconv.Itoa(code),
		Meaning: "Berth does not know this Xid, and so treats the GPU as unhealthy.",
		Action:  "Look the code up in NVIDIA's Xid catalogue.",
	}
}

const (
	restartApp = "Look at the application's log; the GPU needs nothing."
	resetGPU   = "Drain the GPU and reset it, or restart the node."
	replaceGPU = "Drain the node and run NVIDIA's field diagnostics; the GPU may have to be replaced."
)

// xids is read only.
var xids = map[int]XidInfo{
	13:  {Name: "graphics engine exception", Meaning: "A kernel used an illegal instruction or address.", Action: restartApp, Healthy: true},
	31:  {Name: "GPU memory page fault", Meaning: "A kernel touched memory that is not mapped.", Action: restartApp, Healthy: true},
	32:  {Name: "invalid or corrupted push buffer stream", Meaning: "The stream of commands to the GPU was corrupted, by the driver or on the PCIe bus.", Action: resetGPU},
	38:  {Name: "driver firmware error", Meaning: "The driver's firmware met an internal error.", Action: resetGPU},
	43:  {Name: "GPU stopped processing", Meaning: "The driver stopped an application after a fault of its own.", Action: restartApp, Healthy: true},
	45:  {Name: "preemptive cleanup", Meaning: "The driver removed an application's work, as when it is killed.", Action: restartApp, Healthy: true},
	48:  {Name: "double bit ECC error", Meaning: "Memory was corrupted in a way that cannot be corrected.", Action: resetGPU},
	61:  {Name: "internal micro-controller breakpoint", Meaning: "The GPU's own controller stopped, as a warning.", Action: resetGPU},
	62:  {Name: "internal micro-controller halt", Meaning: "The GPU's own controller stopped for good.", Action: resetGPU},
	63:  {Name: "ECC page retirement or row remapping recorded", Meaning: "A bad memory row was recorded and is replaced at the next reset.", Action: resetGPU},
	64:  {Name: "ECC page retirement or row remapping failed", Meaning: "A bad memory row could not be recorded for replacement.", Action: replaceGPU},
	68:  {Name: "video processor exception", Meaning: "The video decoder met an error in its input.", Action: restartApp, Healthy: true},
	69:  {Name: "graphics engine class error", Meaning: "The graphics engine was given a wrong class or method.", Action: resetGPU},
	74:  {Name: "NVLink error", Meaning: "A link between GPUs, or to a switch, failed.", Action: "Drain the node, reset its GPUs, and check the link's connection if it comes back."},
	79:  {Name: "GPU has fallen off the bus", Meaning: "The driver cannot reach the GPU over PCIe.", Action: "Drain and restart the node; if it comes back, check power, seating and heat."},
	92:  {Name: "high single-bit ECC error rate", Meaning: "Correctable memory errors come too often.", Action: replaceGPU},
	94:  {Name: "contained memory error", Meaning: "A memory error that cannot be corrected hit one application only.", Action: "Restart the application; reset the GPU when it is free."},
	95:  {Name: "uncontained memory error", Meaning: "A memory error that cannot be corrected hit every application on the GPU.", Action: resetGPU},
	109: {Name: "context switch timeout", Meaning: "An application could not be switched out in time.", Action: "Restart the application; NVIDIA advises to reset the GPU, though its plugin leaves it healthy.", Healthy: true},
	110: {Name: "security fault", Meaning: "The GPU refused an access by its security rules.", Action: resetGPU},
	119: {Name: "GSP RPC timeout", Meaning: "The GPU's system processor did not answer the driver in time.", Action: resetGPU},
	120: {Name: "GSP error", Meaning: "The GPU's system processor met an error.", Action: resetGPU},
	121: {Name: "C2C link corrected error", Meaning: "A chip-to-chip link met errors and corrected them.", Action: "Reset the GPU when it is free."},
	122: {Name: "SPI PMU RPC read failure", Meaning: "The GPU's flash memory could not be read.", Action: resetGPU},
	123: {Name: "SPI PMU RPC write failure", Meaning: "The GPU's flash memory could not be written.", Action: resetGPU},
	136: {Name: "ALI training failure", Meaning: "An NVLink could not be brought up.", Action: resetGPU},
	140: {Name: "unrecovered ECC error", Meaning: "A memory error was found by the hardware and not recovered.", Action: resetGPU},
	143: {Name: "GPU initialization failure", Meaning: "The GPU did not start.", Action: resetGPU},
}
