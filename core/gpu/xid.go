package gpu

import (
	"slices"
	"strconv"
)

// XidClass is what NVIDIA's catalog asks to be done at once about an Xid.
type XidClass string

// The classes, from harmless to grave. The words in brackets are the
// catalogue's.
const (
	XidNote        XidClass = "note"        // nothing: the driver tells of something [IGNORE]
	XidApplication XidClass = "application" // restart the application; the GPU is well [RESTART_APP]
	XidReset       XidClass = "reset"       // reset the GPU [RESET_GPU, and the workflows that end there]
	XidSupport     XidClass = "support"     // a person must look; also every code that is not known [CONTACT_SUPPORT, CHECK_MECHANICALS, UPDATE_SWFW]
	XidRestart     XidClass = "restart"     // restart the machine: the driver has lost the GPU [RESTART_BM, RESTART_VM]
)

// XidInfo says what one Xid, an error code of NVIDIA's driver, means.
type XidInfo struct {
	Code    int
	Name    string // a few words, as in NVIDIA's catalog
	Meaning string // what happened, one sentence
	Action  string // what to do, one sentence
	Class   XidClass
	Healthy bool // the GPU may still be given to containers: Class is note or application
}

// Xid tells of one code. Code 0 is no error; a code that is not known is of
// class support.
//
// NVIDIA's catalog decides, not the list of six codes in its device plugin
// (13, 31, 43, 45, 68, 109): they differ on 94 and 109, among others. See
// docs/decisions/2026-11-21-xid-policy.md.
//
// Source: NVIDIA, "Analyzing Xid errors with the Xid catalog".
func Xid(code int) XidInfo {
	if code == 0 {
		return XidInfo{Name: "none", Meaning: "The driver has reported no error.", Action: "Nothing to do.", Class: XidNote, Healthy: true}
	}
	x, ok := xids[code]
	if !ok {
		x, ok = engineXid(code)
	}
	if !ok {
		x = XidInfo{
			Name: "Xid " + strconv.Itoa(code), Class: XidSupport,
			Meaning: "Berth does not know this Xid, and so treats the GPU as unhealthy.",
			Action:  "Look the code up in NVIDIA's Xid catalog.",
		}
	}
	x.Code = code
	x.Healthy = x.Class == XidNote || x.Class == XidApplication
	return x
}

// engines are the codes that tell of an error in one engine of a GPU while it
// worked for an application. Read only.
var engines = []struct {
	name  string
	codes []int
}{
	{"copy engine", []int{39, 40, 41, 70, 71, 72, 75, 76, 77, 85, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135}},
	{"video decoder", []int{83, 84, 88, 89, 96, 97, 98}},
	{"JPEG engine", []int{82, 99, 100, 101, 102, 103, 104, 105}},
	{"optical flow engine", []int{86, 139}},
	{"security engine", []int{60}},
}

func engineXid(code int) (XidInfo, bool) {
	for _, e := range engines {
		if slices.Contains(e.codes, code) {
			return XidInfo{
				Name: e.name + " error", Class: XidApplication, Action: restartApp,
				Meaning: "An application's work on the " + e.name + " met an error.",
			}, true
		}
	}
	return XidInfo{}, false
}

const (
	restartApp = "Look at the application's log; the GPU needs nothing."
	watchGPU   = "Nothing at once; ask NVIDIA if it comes again."
	resetGPU   = "Drain the GPU and reset it, or restart the node."
	replaceGPU = "Drain the node and run NVIDIA's field diagnostics; the GPU may have to be replaced."
)

// xids is read only.
var xids = map[int]XidInfo{
	8:   {Name: "GPU stopped processing", Meaning: "An application's work did not end in time.", Action: restartApp, Class: XidApplication},
	11:  {Name: "invalid or corrupted push buffer stream", Meaning: "An application sent commands that the GPU does not understand.", Action: restartApp, Class: XidApplication},
	13:  {Name: "graphics engine exception", Meaning: "A kernel used an illegal instruction or address.", Action: restartApp, Class: XidApplication},
	14:  {Name: "test", Meaning: "The driver was asked to report an error that is none.", Action: watchGPU, Class: XidNote},
	25:  {Name: "invalid or illegal push buffer stream", Meaning: "An application sent commands that the GPU does not understand.", Action: restartApp, Class: XidApplication},
	31:  {Name: "GPU memory page fault", Meaning: "A kernel touched memory that is not mapped.", Action: restartApp, Class: XidApplication},
	32:  {Name: "invalid or corrupted push buffer stream", Meaning: "The stream of commands to the GPU was corrupted, by the application or on the PCIe bus.", Action: restartApp, Class: XidApplication},
	37:  {Name: "driver firmware error", Meaning: "The driver's firmware was asked for something that it does not know.", Action: watchGPU, Class: XidNote},
	38:  {Name: "driver firmware error", Meaning: "The driver's firmware met an internal error.", Action: watchGPU, Class: XidNote},
	43:  {Name: "GPU stopped processing", Meaning: "The driver stopped an application after a fault of its own.", Action: restartApp, Class: XidNote},
	44:  {Name: "graphics engine fault during context switch", Meaning: "A fault was met while one application gave way to another.", Action: watchGPU, Class: XidNote},
	45:  {Name: "preemptive cleanup", Meaning: "The driver removed an application's work, as when it is killed.", Action: restartApp, Class: XidApplication},
	46:  {Name: "GPU stopped processing", Meaning: "The GPU did not answer the driver in time.", Action: resetGPU, Class: XidReset},
	48:  {Name: "double bit ECC error", Meaning: "Memory was corrupted in a way that cannot be corrected.", Action: resetGPU, Class: XidReset},
	54:  {Name: "auxiliary power is not connected", Meaning: "The board gets too little power.", Action: "Stop the node and check the GPU's power cables.", Class: XidSupport},
	61:  {Name: "internal micro-controller breakpoint", Meaning: "The GPU's own controller stopped, as a warning.", Action: resetGPU, Class: XidSupport},
	62:  {Name: "internal micro-controller halt", Meaning: "The GPU's own controller stopped for good.", Action: resetGPU, Class: XidReset},
	63:  {Name: "ECC page retirement or row remapping recorded", Meaning: "A bad memory row was recorded and is replaced at the next reset.", Action: "Reset the GPU when it is free.", Class: XidNote},
	64:  {Name: "ECC page retirement or row remapping failed", Meaning: "A bad memory row could not be recorded for replacement.", Action: replaceGPU, Class: XidReset},
	66:  {Name: "illegal access by driver", Meaning: "The driver used a register that it may not.", Action: watchGPU, Class: XidNote},
	67:  {Name: "illegal access by driver", Meaning: "The driver used a register that it may not.", Action: watchGPU, Class: XidNote},
	68:  {Name: "video processor exception", Meaning: "The video decoder met an error in its input.", Action: restartApp, Class: XidApplication},
	69:  {Name: "graphics engine class error", Meaning: "The graphics engine was given a wrong class or method.", Action: restartApp, Class: XidApplication},
	74:  {Name: "NVLink error", Meaning: "A link between GPUs, or to a switch, failed.", Action: "Drain the node, reset its GPUs, and check the link's connection if it comes back.", Class: XidReset},
	78:  {Name: "vGPU start error", Meaning: "A vGPU could not be started.", Action: "Check that the versions of the host's and the guest's driver go together.", Class: XidSupport},
	79:  {Name: "GPU has fallen off the bus", Meaning: "The driver cannot reach the GPU over PCIe.", Action: "Drain and restart the node; if it comes back, check power, seating and heat.", Class: XidRestart},
	80:  {Name: "corrupted data sent to GPU", Meaning: "Commands came to the GPU other than they were sent.", Action: restartApp, Class: XidApplication},
	92:  {Name: "high single-bit ECC error rate", Meaning: "Correctable memory errors come too often.", Action: watchGPU, Class: XidNote},
	93:  {Name: "InfoROM wear limit", Meaning: "The GPU's own flash memory has been written more often than it was made for.", Action: watchGPU, Class: XidNote},
	94:  {Name: "contained memory error", Meaning: "A memory error that cannot be corrected hit one application only.", Action: "Restart the application; reset the GPU when it is free.", Class: XidApplication},
	95:  {Name: "uncontained memory error", Meaning: "A memory error that cannot be corrected hit every application on the GPU.", Action: resetGPU, Class: XidReset},
	106: {Name: "management test message", Meaning: "A message by which the management bus is tried.", Action: watchGPU, Class: XidNote},
	107: {Name: "management test message", Meaning: "A message by which the management bus is tried.", Action: watchGPU, Class: XidNote},
	108: {Name: "NVLink remote translation error", Meaning: "An access to another GPU's memory had no translation.", Action: watchGPU, Class: XidNote},
	109: {Name: "context switch timeout", Meaning: "An application could not be switched out in time, and others may not get their turn.", Action: "Drain the GPU and reset it; NVIDIA's device plugin would leave it in use.", Class: XidReset},
	110: {Name: "security fault", Meaning: "The GPU refused an access by its security rules.", Action: resetGPU, Class: XidReset},
	119: {Name: "GSP RPC timeout", Meaning: "The GPU's system processor did not answer the driver in time.", Action: resetGPU, Class: XidReset},
	120: {Name: "GSP error", Meaning: "The GPU's system processor met an error.", Action: resetGPU, Class: XidReset},
	121: {Name: "C2C link corrected error", Meaning: "A chip-to-chip link met errors and corrected them.", Action: "Reset the GPU when it is free.", Class: XidNote},
	122: {Name: "SPI PMU RPC read failure", Meaning: "The GPU's flash memory could not be read.", Action: resetGPU, Class: XidSupport},
	123: {Name: "SPI PMU RPC write failure", Meaning: "The GPU's flash memory could not be written.", Action: resetGPU, Class: XidSupport},
	136: {Name: "ALI training failure", Meaning: "An NVLink could not be brought up.", Action: resetGPU, Class: XidReset},
	137: {Name: "NVLink privilege error", Meaning: "An application touched memory of another GPU that it may not.", Action: restartApp, Class: XidNote},
	140: {Name: "unrecovered ECC error", Meaning: "A memory error was found by the hardware and not recovered.", Action: resetGPU, Class: XidReset},
	141: {Name: "CUDA fast path error", Meaning: "CUDA's short way to the GPU met an error.", Action: watchGPU, Class: XidNote},
	143: {Name: "GPU initialization failure", Meaning: "The GPU did not start.", Action: resetGPU, Class: XidReset},
	144: {Name: "NVLink SAW error", Meaning: "An NVLink of the fifth generation met an error.", Action: resetGPU, Class: XidReset},
	145: {Name: "NVLink RLW error", Meaning: "An NVLink of the fifth generation met an error.", Action: resetGPU, Class: XidReset},
	146: {Name: "NVLink TLW error", Meaning: "An NVLink of the fifth generation met an error.", Action: resetGPU, Class: XidReset},
	147: {Name: "NVLink TREX error", Meaning: "An NVLink of the fifth generation met an error.", Action: resetGPU, Class: XidReset},
	148: {Name: "NVLink control error", Meaning: "An NVLink of the fifth generation met an error.", Action: resetGPU, Class: XidReset},
	149: {Name: "NVLink NETIR error", Meaning: "An NVLink of the fifth generation met an error.", Action: resetGPU, Class: XidReset},
	150: {Name: "NVLink MSE error", Meaning: "An NVLink of the fifth generation met an error.", Action: resetGPU, Class: XidReset},
	151: {Name: "key rotation error", Meaning: "The keys of confidential computing could not be changed.", Action: "Drain and restart the node.", Class: XidRestart},
	152: {Name: "DLA memory error", Meaning: "A deep learning accelerator touched memory that is not mapped.", Action: watchGPU, Class: XidNote},
	153: {Name: "DLA timeout", Meaning: "A deep learning accelerator did not answer in time.", Action: watchGPU, Class: XidNote},
	154: {Name: "GPU recovery action changed", Meaning: "The driver has changed what it advises after the Xid before.", Action: "See what nvidia-smi -q says under GPU Recovery Action.", Class: XidReset},
	155: {Name: "NVLink error defined by software", Meaning: "Software has taken an NVLink down.", Action: resetGPU, Class: XidReset},
	156: {Name: "resource retirement recorded", Meaning: "A bad part of the GPU is taken out of use at the next reset.", Action: resetGPU, Class: XidReset},
	157: {Name: "resource retirement failed", Meaning: "A bad part of the GPU could not be taken out of use.", Action: replaceGPU, Class: XidNote},
	158: {Name: "GPU fatal timeout", Meaning: "The GPU did not answer the driver in time.", Action: resetGPU, Class: XidReset},
	160: {Name: "channel retirement recorded", Meaning: "A bad channel of the GPU's memory was taken out of use.", Action: watchGPU, Class: XidNote},
	161: {Name: "channel retirement failed", Meaning: "A bad channel of the GPU's memory could not be taken out of use.", Action: watchGPU, Class: XidNote},
	162: {Name: "power smoothing engaged", Meaning: "The circuits that even out power draw work again.", Action: "Nothing to do.", Class: XidNote},
	163: {Name: "power smoothing disengaged", Meaning: "The circuits that even out power draw have stopped.", Action: watchGPU, Class: XidNote},
	171: {Name: "uncorrectable DRAM error", Meaning: "It tells of an Xid 48 that the fault was in the GPU's memory.", Action: resetGPU, Class: XidReset},
	172: {Name: "uncorrectable SRAM error", Meaning: "It tells of an Xid 48 that the fault was in the GPU's caches.", Action: resetGPU, Class: XidReset},
}
