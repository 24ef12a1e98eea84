// Command pause holds the namespaces of a pod: it waits until it is told to end.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	go reap()
	<-stop
}

// reap collects children that were orphaned to us, the first process of the
// pod where it shares its process namespace.
func reap() {
	child := make(chan os.Signal, 1)
	signal.Notify(child, syscall.SIGCHLD)
	for range child {
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if err != nil || pid <= 0 {
				break
			}
		}
	}
}
