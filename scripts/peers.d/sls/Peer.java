// The seed's benchmark on the service's own Java producer: senders that make logs and send them, and the time until the
// last of them has its outcome. Unlike the original it also ends when logs fail, and prints how many.
import com.aliyun.openservices.aliyun.log.producer.LogProducer;
import com.aliyun.openservices.aliyun.log.producer.Producer;
import com.aliyun.openservices.aliyun.log.producer.ProducerConfig;
import com.aliyun.openservices.aliyun.log.producer.ProjectConfig;
import com.aliyun.openservices.log.common.LogItem;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;

public class Peer {
    private static final String BODY = "abcdefghijklmnopqrstuvwxyz0123456789!@#$%^&*()_";

    public static void main(String[] arguments) throws Exception {
        String host = arguments[0];
        String store = arguments[1];
        ProducerConfig config = new ProducerConfig();
        config.setIoThreadCount(Integer.parseInt(arguments[2]));
        config.setTotalSizeInBytes(Integer.parseInt(arguments[3]));
        config.setBatchSizeThresholdInBytes(Integer.parseInt(arguments[4]));
        config.setBatchCountThreshold(Integer.parseInt(arguments[5]));
        config.setLingerMs(Integer.parseInt(arguments[6]));
        int senders = Integer.parseInt(arguments[7]);
        int each = Integer.parseInt(arguments[8]);

        Producer producer = new LogProducer(config);
        producer.putProjectConfig(new ProjectConfig("brokermark", "http://" + host, "brokermark", "brokermark"));
        CountDownLatch outcomes = new CountDownLatch(senders * each);
        AtomicLong failed = new AtomicLong();
        long begin = System.nanoTime();
        for (int sender = 0; sender < senders; sender++) {
            new Thread(() -> {
                Random random = new Random();
                for (int index = 0; index < each; index++) {
                    int number = random.nextInt(20_000_000);
                    LogItem log = new LogItem((int) (System.currentTimeMillis() / 1000));
                    for (int key = 1; key <= 8; key++) {
                        log.PushBack("content_key_" + key, key + BODY + number);
                    }
                    try {
                        producer.send("brokermark", store, "topic-" + number % 5, "source-" + number % 10, log, result -> {
                            if (!result.isSuccessful()) {
                                failed.incrementAndGet();
                            }
                            outcomes.countDown();
                        });
                    } catch (Exception error) {
                        System.err.println(error);
                        failed.incrementAndGet();
                        outcomes.countDown();
                    }
                }
            }).start();
        }
        outcomes.await();
        double seconds = (System.nanoTime() - begin) / 1e9;
        producer.close();
        System.out.printf("%d logs, %d failed, %.3f s%n", senders * each, failed.get(), seconds);
    }
}
