package gpu

// pciDevices are the PCI device IDs of products, vendor 10de.
//
// Source: the PCI ID Repository, and the filters of NVIDIA's default MIG
// configuration.
var pciDevices = map[string]uint32{
	"NVIDIA A100-SXM4-40GB": 0x20b0, "NVIDIA A100-SXM4-80GB": 0x20b2, "NVIDIA A100-PCIE-40GB": 0x20f1,
	"NVIDIA A100 80GB PCIe": 0x20b5, "NVIDIA A30": 0x20b7, "NVIDIA A10": 0x2236, "NVIDIA A10G": 0x2237,
	"NVIDIA L4": 0x27b8, "NVIDIA L40S": 0x26b9, "NVIDIA H100 80GB HBM3": 0x2330, "NVIDIA H100 PCIe": 0x2331,
	"NVIDIA H100 NVL": 0x2321, "NVIDIA H200": 0x2335, "NVIDIA H200 NVL": 0x233b, "NVIDIA GH200 480GB": 0x2342,
	"NVIDIA GH200 144G HBM3e": 0x2348, "NVIDIA B200": 0x2901, "NVIDIA GB200": 0x2941, "NVIDIA B300 SXM6 AC": 0x3182,
	"NVIDIA GB300": 0x31c2, "NVIDIA RTX PRO 6000 Blackwell Server Edition": 0x2bb5,
	"NVIDIA RTX PRO 6000 Blackwell Workstation Edition": 0x2bb1, "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition": 0x2bb4,
	"Tesla V100-SXM2-16GB": 0x1db1, "Tesla V100-SXM2-32GB": 0x1db5, "Tesla T4": 0x1eb8, "Tesla P100-PCIE-16GB": 0x15f8,
	"Tesla K80": 0x102d, "NVIDIA GeForce RTX 4090": 0x2684,
}

// PCIID returns the PCI ID of the product: device in the upper half, vendor in the
// lower, such as 0x20B010DE; 0 is unknown.
func (p Product) PCIID() uint32 {
	if device := pciDevices[p.Name]; device != 0 {
		return device<<16 | 0x10de
	}
	return 0
}
