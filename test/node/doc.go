// Package node holds tests on a real node: Kubernetes' kubelet, containerd and
// runc, with the node agent on GPUs that do not exist. Each test has namespaces
// of its own (mounts, processes, network), so that nothing of it is seen outside
// and all of it ends with the test. They need Linux and root, and are left out,
// with the reason, where that is missing. tools/node.sh builds what they run.
package node
