package devices

type scorer struct{}
