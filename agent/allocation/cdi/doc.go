// Package cdi writes the CDI specs by which containers get their devices, one for
// each answer to the kubelet. The specs are the node's record, too: each keeps what
// its pod holds, so an agent that starts reads them.
//
// Where the driver gives no CDI spec, or the kubelet's choice stands, it says the
// same in NVIDIA's way: environment variables, mounts and device nodes.
package cdi
