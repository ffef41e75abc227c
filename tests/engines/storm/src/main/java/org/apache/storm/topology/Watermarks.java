package org.apache.storm.topology;

/** Runs an executor's watermark timer by hand: only its own package sees it. */
public final class Watermarks {
    private Watermarks() {}

    public static void tick(WindowedBoltExecutor executor) {
        executor.waterMarkEventGenerator.run();
    }
}
